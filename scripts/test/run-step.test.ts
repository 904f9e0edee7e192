import { expect, it } from "vitest";
import { runCommand } from "../ci/run-step.ts";

const node = (code: string, timeoutMs = 30_000): ReturnType<typeof runCommand> =>
  runCommand({ command: [process.execPath, "-e", code], env: process.env, cwd: process.cwd(), timeoutMs });

it("keeps a command's output and its exit code", async () => {
  expect(await node("console.log('hello'); process.exitCode = 3")).toEqual({
    exitCode: 3,
    output: "hello\n",
  });
});

it("says why there is no exit code", async () => {
  expect(await node("process.kill(process.pid, 'SIGTERM')")).toMatchObject({
    exitCode: null,
    reason: "ended by SIGTERM",
  });
  const missing = {
    command: ["no-such-command"],
    env: process.env,
    cwd: process.cwd(),
    timeoutMs: 1_000,
  } as const;
  expect(await runCommand(missing)).toMatchObject({
    exitCode: null,
    reason: expect.stringContaining("ENOENT"),
  });
});

it("ends a command that overstays, with the children it started", async () => {
  const forever = "setInterval(() => {}, 1000)";
  const parent = `
    require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(forever)}], { stdio: "inherit" });
    ${forever};
  `;
  // The child holds the same pipe: that this settles at all shows that the child is gone too.
  expect(await node(parent, 1_000)).toEqual({
    exitCode: null,
    reason: "still running after 1 s",
    output: "",
  });
});

it("does not wait for what a finished command left running", async () => {
  const parent = `
    const options = { stdio: "inherit" };
    require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], options).unref();
  `;
  expect(await node(parent)).toEqual({ exitCode: 0, output: "" });
});
