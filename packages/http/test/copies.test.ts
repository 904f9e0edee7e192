/** Two copies of the packages in one process, as two dependents bring them: what one throws, the other one knows. */
import { randomUUID } from "node:crypto";
import { expect, it, vi } from "vitest";
import { idempotent as first } from "../src/fetch.ts";
import { createSpace, problemOf, statusOf } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

it.each(DRIVERS)("a gate over the store of another copy, on %s", async (driver) => {
  const space = await createSpace(driver);
  vi.resetModules();
  const { idempotent } = await import("../src/fetch.ts");
  expect(idempotent).not.toBe(first);
  const waiting = Promise.withResolvers<void>();
  const handling = Promise.withResolvers<void>();
  const safely = idempotent(space.store, { principal: () => null });
  const handle = safely({ mode: "record", takeover: "rerun" }, async (request) => {
    if ((await request.text()) !== "waits") return new Response("done", { status: 201 });
    handling.resolve();
    await waiting.promise;
    return new Response("late");
  });
  const send = (key: string, body: string) =>
    handle(new Request("http://localhost/", { method: "POST", headers: { "idempotency-key": key }, body }));
  const key = randomUUID();
  expect(statusOf(await send(key, "a"))).toBe("created");
  expect(statusOf(await send(key, "a"))).toBe("replayed");
  expect((await problemOf(await send(key, "b"))).code).toBe("mismatch");
  const zombie = send(randomUUID(), "waits");
  await handling.promise;
  await space.age(366 * 24 * 60 * 60 * 1000);
  await space.store.keys.sweep();
  waiting.resolve();
  expect((await problemOf(await zombie)).code).toBe("claim-lost");
});
