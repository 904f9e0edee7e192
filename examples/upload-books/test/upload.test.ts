import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it("an upload that is sent through two kills makes one book", () => {
  const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, "--size", "4"], {
    encoding: "utf8",
    timeout: 50_000,
  });
  expect(stderr.replaceAll(/^.*Experimental.*\n.*\n/gm, "")).toBe("");
  expect(stdout).toContain("in the middle of the file");
  expect(stdout).toContain("hears 409 in-flight: asks again in");
  expect(stdout).toContain("after its commit, before its answer");
  expect(stdout).toContain("hears 201 replayed: /books/1");
  expect(stdout).toContain("hears 422 mismatch");
  expect(stdout).toContain("books: 1, events: 1");
  expect(stdout).toContain("files of attempts that died, now removed: 1");
  expect(stdout).toMatch(/^peak RSS of the server that took it all: \d+ MiB/m);
  expect(status).toBe(0);
});
