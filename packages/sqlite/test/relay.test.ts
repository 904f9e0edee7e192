/** A relay on a driver whose calls are answered at once. */
import Database from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { sqlite } from "../src/index.ts";

it("leaves everything else of the process its turn, however much is due", async () => {
  const db = new Database(":memory:");
  const dovecote = sqlite(db);
  onTestFinished(() => dovecote.close());
  await dovecote.migrate();
  const event = { stream: "orders", source: "/test", type: "test" };
  await dovecote.transaction((tx) => {
    for (let n = 0; n < 1000; n++) dovecote.enqueue(tx, { ...event, id: String(n) });
  });
  const stop = new AbortController();
  let delivered = 0;
  setImmediate(() => setTimeout(() => stop.abort(), 1));
  await dovecote
    .relay({
      concurrency: 1,
      deliver: () => {
        delivered += 1;
      },
    })
    .run({ signal: stop.signal });
  expect(delivered).toBeGreaterThan(0);
  expect(delivered).toBeLessThan(1000);
});
