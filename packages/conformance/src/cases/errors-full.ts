/** A disk that is full: told apart from every other failure, and survived. */
import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import { errorOf } from "./errors-refusals.ts";
import { refused, unchanged } from "./expect.ts";
import { enqueued, enqueuedMany, event } from "./given.ts";
import { FAILURE } from "./settling.ts";
import { accepted, nothingWritten } from "./written.ts";

export const fullCases: readonly Case[] = [
  {
    id: "ERR-02",
    level: 2,
    intent:
      "a full disk is STORE_FULL, not retryable; nothing is half-written, and the store works once there is room",
    async run(t) {
      const { session, outbox } = t;
      await enqueuedMany(t, 4);
      const [first, second, third] = await outbox.claim({ worker: "w1", limit: 3, leaseMs: 60_000 });
      assert.ok(first && second && third, "three events must be claimable");
      // More than any page that is there already has room for.
      const batch = Array.from({ length: 8 }, () => event({ data: "x".repeat(60_000) }));
      const enqueue = () => outbox.transaction((tx) => outbox.enqueueMany(tx, batch));
      const fault = await session.faults.fillDisk();
      try {
        const error = await nothingWritten("a batch on a full disk", session, () =>
          refused("a batch on a full disk", ["STORE_FULL"], enqueue),
        );
        assert.equal(
          error.retryable,
          false,
          "STORE_FULL must not be retryable: the same call would meet it again",
        );
        assert.equal(
          error.ambiguous,
          false,
          "what found no room was not written: STORE_FULL must not be ambiguous",
        );
        const calls = [
          ["a claim", () => outbox.claim({ worker: "w2" })],
          ["a retry", () => outbox.retry(first, { failure: { ...FAILURE, detail: "y".repeat(2048) } })],
          ["a renewal", () => outbox.renew(second)],
          ["an ack", () => outbox.ack(third)],
        ] as const;
        for (const [what, call] of calls) {
          // What finds room in the pages that are there may succeed.
          const before = await session.probe.deliveries();
          const failed = await errorOf(`${what} on a full disk`, call);
          if (failed === undefined) continue;
          assert.equal(
            failed.code,
            "STORE_FULL",
            `${what} on a full disk must succeed or be refused with STORE_FULL`,
          );
          assert.deepEqual(
            await session.probe.deliveries(),
            before,
            `${what} refused on a full disk must leave every row byte-identical`,
          );
        }
        await unchanged("reading on a full disk", session, async () => {
          assert.equal(
            (await accepted("a page on a full disk", () => outbox.page())).entries.length,
            4,
            "a full store must be readable",
          );
        });
      } finally {
        await fault.release();
      }
      const outcomes = await accepted("the batch, once there is room", enqueue);
      assert.ok(
        outcomes.every(({ outcome }) => outcome === "enqueued"),
        "the batch must be stored once there is room",
      );
      await enqueued(t);
      assert.ok((await outbox.claim({ worker: "w3" })).length > 0, "a store that was full must work again");
    },
  },
];
