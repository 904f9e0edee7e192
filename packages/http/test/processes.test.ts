/** Two server processes on one database, and one of them killed at every stage of a request. */
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { KINDS, type Script } from "./apps.ts";
import { createSpace, post, problemOf, statusOf } from "./fixtures.ts";
import type { ChildSetup } from "./server-child.ts";
import { DRIVERS } from "./stores.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const CHILD = fileURLToPath(new URL("server-child.ts", import.meta.url));
const EFFECT: Script = { effect: "a", body: "YQ==" };

interface Child {
  readonly url: string;
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
}

async function start(setup: ChildSetup): Promise<Child> {
  const child = fork(CHILD, [JSON.stringify(setup)], { execArgv: ["--disable-warning=ExperimentalWarning"] });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const [port] = (await once(child, "message")) as [number];
  return { url: `http://127.0.0.1:${port}`, process: child, exited };
}

/** The connection breaks, since the server is gone. */
async function dies(child: Child, sent: Promise<Response>): Promise<void> {
  await expect(sent).rejects.toThrow("fetch failed");
  await child.exited;
  expect(child.process.signalCode).toBe("SIGKILL");
}

describe.each(KINDS.flatMap((kind) => DRIVERS.map((driver) => ({ kind, driver }))))(
  "$kind on $driver",
  ({ kind, driver }) => {
    it("answers once, whichever of two processes is asked, and however many ask at once", async () => {
      const space = await createSpace(driver);
      const setup = { kind, driver, address: space.address };
      const servers = await Promise.all([start(setup), start(setup)]);
      for (let round = 0; round < 5; round += 1) {
        const key = randomUUID();
        const script: Script = { effect: String(round), body: "YQ==" };
        const asked = [0, 1, 0, 1].map(async (index) => {
          const server = servers[index] as Child;
          for (;;) {
            const response = await post(server, key, script);
            if (statusOf(response) !== "in-flight") return response;
          }
        });
        const answers = await Promise.all(asked);
        expect(answers.map(statusOf).toSorted()).toEqual(["created", "replayed", "replayed", "replayed"]);
        for (const answer of answers) expect(await answer.text()).toBe("a");
      }
      expect(await space.effects()).toEqual(["0", "1", "2", "3", "4"]);
    });
  },
);

// Express and Fastify pass by the adapter of node:http.
describe.each((["fetch", "node"] as const).flatMap((kind) => DRIVERS.map((driver) => ({ kind, driver }))))(
  "$kind on $driver",
  ({ kind, driver }) => {
    it("killed while it reads a request, it has done nothing, and the next process does it", async () => {
      const space = await createSpace(driver);
      const setup = { kind, driver, address: space.address };
      const [first, second] = await Promise.all([start(setup), start(setup)]);
      const socket = connect(Number(new URL(first.url).port), "127.0.0.1");
      socket.on("error", () => {});
      const head = `POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: a\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n`;
      socket.write(`${head}expect: 100-continue\r\n\r\n{"effect":`);
      // The server has read the head.
      await once(socket, "data");
      first.process.kill("SIGKILL");
      await first.exited;
      expect(statusOf(await post(second, "a", EFFECT))).toBe("created");
      expect(await space.effects()).toEqual(["a"]);
    });

    it("killed in its handler, it has done nothing, and the next process does it when the lease is over", async () => {
      const space = await createSpace(driver);
      const setup = { kind, driver, address: space.address };
      const [first, second] = await Promise.all([start(setup), start(setup)]);
      const key = randomUUID();
      const script: Script = { ...EFFECT, stops: "dies" };
      await dies(first, post(first, key, script));
      expect((await problemOf(await post(second, key, script))).code).toBe("in-flight");
      await space.age(DAY_MS / 2);
      expect(statusOf(await post(second, key, script))).toBe("created");
      expect(statusOf(await post(second, key, script))).toBe("replayed");
      expect(await space.effects()).toEqual(["a"]);
    });

    it("killed between its commit and its answer, it has done everything, and the next process answers", async () => {
      const space = await createSpace(driver);
      const setup = { kind, driver, address: space.address };
      const [first, second] = await Promise.all([start({ ...setup, diesCommitted: true }), start(setup)]);
      const key = randomUUID();
      await dies(first, post(first, key, EFFECT));
      const again = await post(second, key, EFFECT);
      expect(statusOf(again)).toBe("replayed");
      expect(await again.text()).toBe("a");
      expect(await space.effects()).toEqual(["a"]);
    });

    it.each([
      ["rerun", "created"],
      ["refuse", "indeterminate"],
    ] as const)("killed beside the database, with takeover %s, a retry is %s", async (takeover, status) => {
      const space = await createSpace(driver);
      const route = { mode: "record", takeover } as const;
      const setup = { kind, driver, address: space.address, route };
      const [first, second] = await Promise.all([start(setup), start(setup)]);
      const key = randomUUID();
      const script: Script = { ...EFFECT, commits: true, stops: "dies" };
      await dies(first, post(first, key, script));
      expect(statusOf(await post(second, key, script))).toBe("in-flight");
      await space.age(DAY_MS / 2);
      expect(statusOf(await post(second, key, script))).toBe(status);
      expect(await space.effects()).toEqual(takeover === "rerun" ? ["a"] : []);
    });
  },
);
