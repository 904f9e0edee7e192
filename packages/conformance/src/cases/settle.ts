import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import type { ProbedDelivery } from "../define-harness.ts";
import { deliveryOf, refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed, event } from "./given.ts";
import { pruneCases } from "./settle-prune.ts";
import { redriveCases } from "./settle-redrive.ts";
import { redriveInCases } from "./settle-redrive-in.ts";
import { FAILURE, SETTLINGS } from "./settling.ts";
import { assertTime, timed } from "./times.ts";

const MINUTE_MS = 60_000;

export const settleCases: readonly Case[] = [
  {
    id: "SETTLE-01",
    level: 1,
    intent: "ack makes a delivery delivered, at database time",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t);
      const events = await session.probe.events();
      const during = await timed(session, () => outbox.ack(claim));
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.state, "delivered", "ack must make the row delivered");
      assertTime("the time of delivery", row.deliveredAt, during);
      assertUnclaimed("ack", row);
      assert.equal(row.attempts, claim.attempt, "ack must keep the attempt");
      assert.deepEqual(await session.probe.events(), events, "ack must leave the event as it is");
      assert.deepEqual(await outbox.claim({ worker: "w2" }), [], "a delivered row must not be claimed again");
    },
  },
  {
    id: "SETTLE-02",
    level: 1,
    intent: "retry records the failure, and makes the row available at database time plus the backoff",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t);
      const during = await timed(session, () =>
        outbox.retry(claim, { failure: FAILURE, delayMs: 10 * MINUTE_MS }),
      );
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.state, "pending", "retry must make the row pending");
      assertTime("the availability after a retry", row.availableAt, during, 10 * MINUTE_MS);
      assert.equal(row.failureCode, FAILURE.code, "retry must record the code of the failure");
      assert.equal(row.failureDetail, FAILURE.detail, "retry must record the detail of the failure");
      assertTime("the time of the failure", row.failedAt, during);
      assertUnclaimed("retry", row);
      assert.equal(row.attempts, claim.attempt, "retry must keep the attempt");
      assert.equal(row.forgiven, claim.forgiven, "a retry must count against the budget");
      assert.deepEqual(
        await outbox.claim({ worker: "w2" }),
        [],
        "a row must not be claimed before its backoff is over",
      );
    },
  },
  {
    id: "SETTLE-02",
    level: 1,
    intent: "a retry without backoff is available at once, and the later failure replaces the earlier one",
    async run(t) {
      const { session, outbox } = t;
      await outbox.retry(await enqueuedAndClaimed(t), { failure: { code: "E_FIRST", detail: "first" } });
      const claim = await claimed(outbox);
      assert.equal(claim.reclaimed, false, "a retried row was not abandoned");
      await outbox.retry(claim, { failure: FAILURE });
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.failureCode, FAILURE.code, "the last failure must be the one recorded");
      assert.equal(row.failureDetail, FAILURE.detail, "code and detail must be of the same failure");
    },
  },
  {
    id: "SETTLE-02",
    level: 1,
    intent: "no failure text can block a settlement: it is cleaned, and cut at a code-point boundary",
    async run(t) {
      const { session, outbox } = t;
      const hostile = `NUL \0 and lone \ud800 then ${"\u{1F600}".repeat(1000)}`;
      const retried = await enqueuedAndClaimed(t);
      await outbox.retry(retried, { failure: { code: "E_HOSTILE", detail: hostile }, delayMs: MINUTE_MS });
      const { failureDetail } = await deliveryOf(session, retried.rowId);
      assertStoredText("a failure's detail", failureDetail, 2048);
      const claim = await enqueuedAndClaimed(t);
      await outbox.quarantine(claim, { reason: hostile });
      const { quarantineReason } = await deliveryOf(session, claim.rowId);
      assertStoredText("a quarantine's reason", quarantineReason, 2048);
    },
  },
  {
    id: "SETTLE-02",
    level: 1,
    intent: "secrets are redacted before the text is cut",
    async run(t) {
      const { session } = t;
      const outbox = t.reopen({ redact: (text) => text.replaceAll("hunter2", "***") });
      // The cut goes through the middle of the secret.
      const text = `${"x".repeat(2044)}hunter2`;
      const retried = await enqueuedAndClaimed(t);
      await outbox.retry(retried, { failure: { code: "E_SECRET", detail: text }, delayMs: MINUTE_MS });
      const { failureDetail } = await deliveryOf(session, retried.rowId);
      assert.ok(!failureDetail?.includes("hunt"), "a failure detail must be redacted before it is cut");
      const given = await enqueuedAndClaimed(t);
      await outbox.quarantine(given, { reason: text });
      const { quarantineReason } = await deliveryOf(session, given.rowId);
      assert.ok(
        !quarantineReason?.includes("hunt"),
        "a quarantine's reason must be redacted before it is cut",
      );
    },
  },
  {
    id: "SETTLE-03",
    level: 1,
    intent: "release keeps an earlier failure, forgives the attempt, and delays from database time",
    async run(t) {
      const { session, outbox } = t;
      await outbox.retry(await enqueuedAndClaimed(t), { failure: FAILURE });
      const claim = await claimed(outbox);
      const before = await deliveryOf(session, claim.rowId);
      const during = await timed(session, () => outbox.release(claim, { delayMs: 10 * MINUTE_MS }));
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.state, "pending", "release must make the row pending");
      assertTime("the availability after a release", row.availableAt, during, 10 * MINUTE_MS);
      assert.deepEqual(
        [row.failureCode, row.failureDetail, row.failedAt],
        [before.failureCode, before.failureDetail, before.failedAt],
        "release must keep the earlier failure",
      );
      assert.equal(row.attempts, claim.attempt, "release must keep the attempt");
      assert.equal(row.forgiven, claim.forgiven + 1, "release must forgive one attempt");
      assertUnclaimed("release", row);
      assert.deepEqual(
        await outbox.claim({ worker: "w2" }),
        [],
        "a row must not be claimed before its delay is over",
      );
    },
  },
  {
    id: "SETTLE-03",
    level: 1,
    intent: "a release without delay is available at once, and no number of them uses up the budget",
    async run(t) {
      const { session, outbox } = t;
      const { rowId } = await enqueued(t);
      for (let round = 1; round <= 5; round++) {
        const claim = await claimed(outbox);
        assert.equal(
          claim.attempt - claim.forgiven,
          1,
          "a released attempt must not count against the budget",
        );
        await outbox.release(claim);
        const row = await deliveryOf(session, rowId);
        assert.equal(row.failureCode, null, "release must not invent a failure");
        assert.equal(row.forgiven, round, "release must forgive one attempt each time");
      }
    },
  },
  {
    id: "SETTLE-04",
    level: 1,
    intent: "quarantine keeps the reason and is terminal: not claimed, and not settled again",
    async run(t) {
      const { session, outbox } = t;
      const claim = await enqueuedAndClaimed(t);
      const during = await timed(session, () =>
        outbox.quarantine(claim, { reason: "the card was refused", failure: FAILURE }),
      );
      const row = await deliveryOf(session, claim.rowId);
      assert.equal(row.state, "quarantined", "quarantine must make the row quarantined");
      assert.equal(row.quarantineReason, "the card was refused", "quarantine must keep its reason");
      assertTime("the time of the quarantine", row.quarantinedAt, during);
      assert.deepEqual(
        [row.failureCode, row.failureDetail],
        [FAILURE.code, FAILURE.detail],
        "quarantine must record the failure given with it",
      );
      assertUnclaimed("quarantine", row);
      assert.equal(row.attempts, claim.attempt, "quarantine must keep the attempt");
      await unchanged("a claim with nothing but a quarantined row", session, async () => {
        assert.deepEqual(await outbox.claim({ worker: "w2" }), [], "a quarantined row must not be claimed");
      });
    },
  },
  {
    id: "SETTLE-04",
    level: 1,
    intent: "an operator quarantines a pending row by its id, also one that is not due yet",
    async run(t) {
      const { session, outbox } = t;
      const due = await enqueued(t);
      const scheduled = await enqueued(t, event(), { delayMs: MINUTE_MS });
      const other = await enqueued(t);
      const events = await session.probe.events();
      const bystander = await deliveryOf(session, other.rowId);
      const during = await timed(session, () => outbox.quarantine(due.rowId, { reason: "wrong address" }));
      const row = await deliveryOf(session, due.rowId);
      assert.equal(row.state, "quarantined", "an operator's quarantine must apply to a pending row");
      assert.equal(row.quarantineReason, "wrong address", "an operator's reason must be kept");
      assertTime("the time of an operator's quarantine", row.quarantinedAt, during);
      assert.equal(row.attempts, 0, "an operator's quarantine is no attempt");
      assert.deepEqual(
        await outbox.quarantine([scheduled.rowId], { reason: "wrong address" }),
        [{ outcome: "applied" }],
        "an operator's quarantine must apply to a row that is not due",
      );
      assert.deepEqual(
        await deliveryOf(session, other.rowId),
        bystander,
        "an operator's quarantine must leave other rows byte-identical",
      );
      assert.deepEqual(await session.probe.events(), events, "quarantine must leave the events as they are");
    },
  },
  {
    id: "SETTLE-04",
    level: 1,
    intent: "an operator's quarantine of a row in any other state is illegal, and changes nothing",
    async run(t) {
      const { session, outbox } = t;
      const quarantine = { reason: "by an operator" };
      const refuse = async (what: string, rowId: number, state: string) => {
        const error = await unchanged(what, session, () =>
          refused(what, ["ILLEGAL_TRANSITION"], () => outbox.quarantine(rowId, quarantine)),
        );
        assert.equal(error.state, state, `${what} must name the state`);
        assert.deepEqual(
          await unchanged(what, session, () => outbox.quarantine([rowId], quarantine)),
          [{ outcome: "illegalTransition", state }],
          `${what}, in a batch, must be illegal`,
        );
      };
      for (const { name, state, one } of SETTLINGS) {
        if (state === "pending") continue;
        const claim = await enqueuedAndClaimed(t);
        await one(outbox, claim);
        await refuse(`an operator's quarantine after ${name}`, claim.rowId, state);
      }
      const live = await enqueuedAndClaimed(t);
      await refuse("an operator's quarantine of a claimed row", live.rowId, "claimed");
      await session.faults.expireLeases([live.rowId]);
      await refuse("an operator's quarantine of an expired claim", live.rowId, "claimed");
      const missing = live.rowId + 1_000_000;
      await unchanged("an operator's quarantine of no row", session, () =>
        refused("an operator's quarantine of no row", ["NOT_FOUND"], () =>
          outbox.quarantine(missing, quarantine),
        ),
      );
      const { rowId } = await enqueued(t);
      await unchanged("an operator's quarantine of another tenant's row", session, () =>
        refused("an operator's quarantine of another tenant's row", ["NOT_FOUND"], () =>
          outbox.tenant("acme").quarantine(rowId, quarantine),
        ),
      );
    },
  },
  ...redriveCases,
  ...redriveInCases,
  ...pruneCases,
];

function assertUnclaimed(what: string, { token, worker, expiresAt }: ProbedDelivery): void {
  assert.deepEqual([token, worker, expiresAt], [null, null, null], `${what} must clear the claim`);
}

function assertStoredText(what: string, text: string | null, maxBytes: number): void {
  assert.ok(text !== null, `${what} must be stored`);
  const bytes = Buffer.byteLength(text);
  assert.ok(bytes <= maxBytes, `${what} must be cut at ${maxBytes} bytes, is ${bytes} long`);
  assert.ok(bytes > maxBytes - 4, `${what} must keep what fits, is ${bytes} long`);
  assert.ok(text.isWellFormed(), `${what} must be cut at a code-point boundary`);
  assert.ok(text.endsWith("\u{1F600}"), `${what} must end with a whole code point`);
  assert.ok(!text.includes("\0"), `${what} must hold no NUL`);
}
