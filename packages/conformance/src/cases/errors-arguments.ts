import assert from "node:assert/strict";
import { BOUNDS, type ErrorCode } from "@dovecote/core";
import type { Case, CaseContext, Outbox } from "../case.ts";
import type { AnyDriver } from "../define-harness.ts";
import { badArguments } from "./bad-arguments.ts";
import { badInTransaction, badOptions } from "./bad-events.ts";
import { refused } from "./expect.ts";
import { claimed, enqueued, event } from "./given.ts";
import { everything } from "./written.ts";

const ARGUMENT: readonly ErrorCode[] = ["INVALID_ARGUMENT"];
const EVENT: readonly ErrorCode[] = ["INVALID_ARGUMENT", "INVALID_EVENT", "EVENT_TOO_LARGE"];

export const argumentCases: readonly Case[] = [
  {
    id: "ERR-03",
    level: 1,
    intent: "bad arguments of every method are refused before any call of the driver",
    async run(t) {
      const { outbox, calls } = counted(t);
      const { rowId } = await enqueued(t);
      const claim = await claimed(t.outbox);
      const before = await everything(t.session);
      for (const { what, call } of badArguments(claim)) {
        const codes: readonly ErrorCode[] =
          what.startsWith("tail") && !t.capabilities.tail ? [...ARGUMENT, "UNSUPPORTED"] : ARGUMENT;
        await refused(what, codes, () => call(outbox));
        assert.deepEqual(calls, [], `${what} must be refused before any I/O`);
      }
      assert.deepEqual(await everything(t.session), before, "bad arguments must change nothing");
      await t.outbox.ack(claim);
      assert.equal(claim.rowId, rowId, "the claim must have been a good one");
    },
  },
  {
    id: "ERR-03",
    level: 1,
    intent: "bad events, and bad arguments in a transaction, are refused before any call of the driver",
    async run(t) {
      const { outbox, calls } = counted(t);
      const before = await everything(t.session);
      const tx = await t.session.begin();
      for (const { what, call } of badInTransaction()) {
        await refused(what, EVENT, async () => call(outbox, tx.handle));
        assert.deepEqual(calls, [], `${what} must be refused before any I/O`);
      }
      // Committed, not rolled back: nothing may have been written at all.
      await tx.commit();
      assert.deepEqual(
        await everything(t.session),
        before,
        "bad arguments in a transaction must change nothing",
      );
    },
  },
  {
    id: "ERR-03",
    level: 1,
    intent: "bad options of a store are refused when it is made",
    async run(t) {
      for (const { what, options } of badOptions()) {
        await refused(what, ARGUMENT, async () => t.reopen(options));
      }
    },
  },
  {
    id: "ERR-03",
    level: 1,
    intent: "arguments that are exactly at a bound are accepted",
    async run(t) {
      const { session, outbox } = t;
      const worker = "w".repeat(BOUNDS.workerBytes);
      const half = "é".repeat(BOUNDS.idBytes / 2);
      const atBounds = event({
        id: half,
        source: "s".repeat(BOUNDS.identityBytes - BOUNDS.idBytes),
        type: "t".repeat(BOUNDS.typeBytes),
        subject: "u".repeat(BOUNDS.subjectBytes),
        datacontenttype: `application/${"x".repeat(BOUNDS.datacontenttypeBytes - "application/+json".length)}+json`,
        dataschema: `urn:x:${"y".repeat(BOUNDS.dataschemaBytes - "urn:x:".length)}`,
        partitionkey: "p".repeat(BOUNDS.partitionkeyBytes),
        stream: "r".repeat(BOUNDS.streamBytes),
      });
      const tenant = outbox.tenant(`${"é".repeat(127)}x`);
      await session.transaction((tx) => tenant.enqueue(tx.handle, atBounds, { delayMs: 0 }));
      await enqueued(t, event(), { delayMs: BOUNDS.delayMs.max });
      const admin = outbox.admin();
      const limit = BOUNDS.limit.max;
      const claims = await admin.claim({
        worker,
        leaseMs: BOUNDS.leaseMs.max,
        limit,
        stream: atBounds.stream,
      });
      assert.equal(claims.length, 1, "an event at every bound must be stored and claimable");
      await admin.renew(claims, { leaseMs: BOUNDS.leaseMs.max });
      const failure = {
        code: "c".repeat(BOUNDS.failureCodeBytes),
        detail: "d".repeat(BOUNDS.failureDetailBytes),
      };
      await admin.retry(claims, { failure, delayMs: BOUNDS.delayMs.min });
      const again = await admin.claim({ worker, leaseMs: 60_000, limit: 1 });
      await admin.release(again, { delayMs: BOUNDS.delayMs.max });
      const [row] = await session.probe.deliveries();
      assert.deepEqual(
        [row?.failureCode, row?.failureDetail],
        [failure.code, failure.detail],
        "a failure at its bounds must be kept whole",
      );
      await outbox.page({ after: Number.MAX_SAFE_INTEGER, limit });
      await outbox.list({ state: "pending", limit });
      await outbox.stats({ countLimit: 1_000_000 });
      await outbox.prune({ olderThanMs: BOUNDS.retentionMs.max, limit });
      await outbox.redrive({ limit });
    },
  },
];

/** The portable API over the session's driver, which counts what reaches it. */
function counted(t: CaseContext): { readonly outbox: Outbox; readonly calls: readonly string[] } {
  const calls: string[] = [];
  const driver: AnyDriver = new Proxy(t.session.driver, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        calls.push(String(key));
        return Reflect.apply(value, target, args);
      };
    },
  });
  return { outbox: t.reopen({}, driver), calls };
}
