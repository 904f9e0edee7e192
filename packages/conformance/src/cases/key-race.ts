/** Idempotency keys among several sessions and processes. */
import assert from "node:assert/strict";
import type { BeginOptions, KeyClaim, KeyName, OnceOutcome } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { Answer, BegunJson } from "../engine/actors.ts";
import { refused } from "./expect.ts";
import {
  acquired,
  age,
  begins,
  ifKeys,
  keyState,
  keysOf,
  name,
  OTHER_REQUEST,
  options,
  RESPONSE,
} from "./key-given.ts";
import { promptly, turns } from "./waiting.ts";
import { accepted, held as later } from "./written.ts";

const LEASE_MS = 60_000;
const SHORT_MS = 300;
/** Whoever waits for a transaction that nobody ends waits for longer. */
const AT_ONCE_MS = 5000;

const cases: readonly Case[] = [
  {
    id: "KEY-03",
    level: 2,
    intent:
      "processes that begin the same key at once: one acquires it, the others are told that it is in flight",
    async run(t) {
      let key = name();
      await t.race({
        contenders: 4,
        rounds: 20,
        async prepare() {
          key = name();
          return [1, 2, 3, 4].map(() => ({
            actor: "begin" as const,
            input: { key: key.key, leaseMs: LEASE_MS },
          }));
        },
        check: async (answers) => acquiredOnce(t, key, answers, "a key that several processes begin", 1),
      });
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent:
      "a claim whose lease is over is taken over by one of several processes, and its old holder writes nothing",
    async run(t) {
      const keys = keysOf(t);
      let key = name();
      await t.race({
        contenders: 4,
        rounds: 20,
        async prepare() {
          key = name();
          const { scopeDigest, keyDigest, tenant, token } = await acquired(keys, key, { leaseMs: LEASE_MS });
          await age(t, LEASE_MS);
          const claim = { scopeDigest, keyDigest, tenant, token: token.reveal() };
          const begin = { actor: "begin" as const, input: { key: key.key, leaseMs: LEASE_MS } };
          return [begin, { actor: "completeKey" as const, input: { claim } }, begin, begin];
        },
        async check([one, complete, ...others]) {
          assert.ok(
            complete !== undefined && "refused" in complete,
            "a claim whose lease is over must complete nothing",
          );
          assert.equal(complete.refused, "LOST_CLAIM", "a claim whose lease is over must be lost");
          await acquiredOnce(t, key, [one, ...others], "a claim whose lease is over", 2);
        },
      });
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent: "what waits for a lock past its lease is refused: the lease is judged when the lock is had",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const waiter = keysOf(await t.connect());
      const waiting = {
        complete: (claim: KeyClaim) => waiter.complete(claim, RESPONSE),
        renew: (claim: KeyClaim) => waiter.renew(claim),
        release: (claim: KeyClaim) => waiter.release(claim),
      };
      for (const [what, call] of Object.entries(waiting)) {
        const claim = await acquired(keys, name(), { leaseMs: SHORT_MS });
        const tx = await session.begin();
        await keys.hold(tx.handle, claim);
        // Begun while the lease lives, so that whatever is only looked at before the wait looks well.
        const late = later<unknown>(call(claim));
        const over = (await session.probe.now()) + (SHORT_MS + 10) * 1000;
        while ((await session.probe.now()) <= over) await turns(session, 1);
        await tx.rollback();
        await refused(`a ${what} that waited past its lease`, ["LOST_CLAIM"], () => late);
      }
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent:
      "a held claim is taken over by nobody, swept by nobody and completed, however slow its transaction is",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const rival = keysOf(await t.connect());
      const row = t.capabilities.lockScope === "row";
      for (const takeover of ["rerun", "refuse"] as const) {
        const key = name();
        // Worth nothing, by its times, right after its lease.
        const claim = await acquired(keys, key, { leaseMs: SHORT_MS, retentionMs: 1, takeover });
        const tx = await session.begin();
        const held = await keys.hold(tx.handle, claim);
        await tx.writeBusinessRow(takeover);
        const over = (await session.probe.now()) + (SHORT_MS + 10) * 1000;
        while ((await session.probe.now()) <= over) await turns(session, 1);
        const what = `a begin beside a held claim (${takeover})`;
        if (row) {
          const begun = promptly(session, what, () => rival.begin(options(key)));
          const { retryAfterMs } = await begins(what, "inFlight", begun);
          assert.ok(retryAfterMs > 0, "whoever waits for a holder must be told a time");
          assert.equal((await rival.sweep()).swept, 0, "a sweep must leave a held claim");
        }
        // Where the lock is the database's, whoever would write waits for the holder, and finds what it left.
        const waiting = row ? undefined : later(rival.begin(options(key)));
        if (!row) await turns(session);
        await accepted("completing a held claim", () => held.complete(RESPONSE));
        await tx.commit();
        const after = await (waiting ?? rival.begin(options(key)));
        assert.ok(
          after.outcome === "replay" || after.outcome === "expired",
          `a key that its holder completed must be known as done, got ${after.outcome}`,
        );
      }
      assert.deepEqual(
        await session.probe.businessRows(),
        ["refuse", "rerun"],
        "what a holder wrote must be there",
      );
    },
  },
  {
    id: "KEY-15",
    level: 2,
    intent: "begin answers while the owner's business transaction is open: it reads, and waits for nobody",
    async run(t) {
      const { session } = t;
      const keys = keysOf(t);
      const rival = keysOf(await t.connect());
      const key = name();
      const done = name();
      await keys.complete(await acquired(keys, done), RESPONSE);
      const claim = await acquired(keys, key);
      const tx = await session.begin();
      const held = await keys.hold(tx.handle, claim);
      await tx.writeBusinessRow("slow");
      const answersAtOnce = async (
        what: string,
        outcome: "inFlight" | "mismatch" | "replay",
        given: BeginOptions,
      ) =>
        begins(
          what,
          outcome,
          promptly(session, what, () => rival.begin(given), AT_ONCE_MS),
        );
      const beside = async (when: string): Promise<void> => {
        await answersAtOnce(`a begin ${when}`, "inFlight", options(key));
        await answersAtOnce(
          `another request ${when}`,
          "mismatch",
          options(key, { fingerprint: OTHER_REQUEST }),
        );
        await answersAtOnce(`a begin of a key that is done ${when}`, "replay", options(done));
      };
      await beside("beside a held claim");
      await held.complete(RESPONSE);
      await beside("beside an answer that is not committed");
      if (t.capabilities.lockScope === "row") {
        const other = name();
        await begins(
          "a begin of another key beside an open transaction",
          "acquired",
          promptly(session, "a begin of another key", () => rival.begin(options(other))),
        );
      }
      await tx.commit();
      await begins("a begin after the commit", "replay", rival.begin(options(key)));
    },
  },
  {
    id: "KEY-08",
    level: 2,
    intent:
      "processes that refuse and processes that take over, at once, after the lease: one way, and it stays",
    async run(t) {
      const keys = keysOf(t);
      let key = name();
      await t.race({
        contenders: 4,
        rounds: 20,
        async prepare() {
          key = name();
          await acquired(keys, key, { leaseMs: LEASE_MS });
          await age(t, LEASE_MS);
          return (["rerun", "refuse", "rerun", "refuse"] as const).map((takeover) => ({
            actor: "begin" as const,
            input: { key: key.key, leaseMs: LEASE_MS, takeover },
          }));
        },
        async check(answers) {
          const begun = answers.map(begunOf);
          const winners = begun.filter(({ outcome }) => outcome === "acquired");
          const refusals = begun.filter(({ outcome }) => outcome === "indeterminate");
          assert.ok(
            winners.length + refusals.length > 0 && (winners.length === 0 || refusals.length === 0),
            `a key must be taken over or refused, never both: ${begun.map(({ outcome }) => outcome).join(", ")}`,
          );
          assert.ok(winners.length <= 1, "a claim whose lease is over must be taken over once");
          assert.equal(
            await keyState(t, key),
            winners.length === 1 ? "inFlight" : "indeterminate",
            "what was answered must be what is stored",
          );
        },
      });
    },
  },
  {
    id: "KEY-03",
    level: 2,
    intent:
      "a sweep racing begins of records that are worth nothing: each is acquired once, and none is swept afterwards",
    async run(t) {
      const keys = keysOf(t);
      let key = name();
      await t.race({
        contenders: 4,
        rounds: 20,
        async prepare() {
          key = name();
          await keys.complete(await acquired(keys, key, { retentionMs: 1000, tombstoneMs: 0 }), RESPONSE);
          await age(t, 1000);
          const begin = { actor: "begin" as const, input: { key: key.key, leaseMs: 600_000 } };
          const sweep = { actor: "sweepKeys" as const, input: {} };
          return [begin, sweep, begin, sweep];
        },
        async check([one, sweep, other, again]) {
          for (const answer of [sweep, again]) assert.ok(answer && "ok" in answer, "a sweep must not fail");
          await acquiredOnce(t, key, [one, other], "a key whose record is worth nothing", 1);
          assert.equal(await keyState(t, key), "inFlight", "a sweep must leave what was acquired meanwhile");
        },
      });
    },
  },
  {
    id: "INBOX-01",
    level: 2,
    intent:
      "consumers in several processes that are given the same event at once: one does it, the others have seen it",
    async run(t) {
      let id = "";
      await t.race({
        contenders: 3,
        rounds: 20,
        async prepare(round) {
          id = `once-${round}`;
          return [1, 2, 3].map((who) => ({
            actor: "consume" as const,
            input: { id, row: `${id} by ${who}` },
          }));
        },
        async check(answers) {
          const outcomes = answers.map((answer) =>
            answer !== undefined && "ok" in answer ? answer.ok : answer?.refused,
          );
          const again = await t.session.probe.businessRows();
          assert.equal(
            again.filter((row) => row.startsWith(`${id} by`)).length,
            1,
            `an event must be consumed once: ${outcomes.join(", ")}`,
          );
          assert.equal(
            outcomes.filter((outcome) => outcome === "first").length,
            1,
            "one consumer must be the first",
          );
          assert.equal(
            outcomes.filter((outcome) => outcome === "seen").length,
            2,
            "the others must have seen the event",
          );
        },
      });
    },
  },
  {
    id: "INBOX-01",
    level: 2,
    intent: "a rival that is at the same event is waited for: it rolls back, and the next one is the first",
    async run(t) {
      if (t.capabilities.lockScope !== "row") return oneAfterTheOther(t);
      const { session } = t;
      const rival = await t.connect();
      for (const end of ["rollback", "commit"] as const) {
        const given = { consumer: "c", event: { source: "/shop", id: end } };
        const tx = await session.begin();
        const first = await t.outbox.inbox.once(tx.handle, given, () => tx.writeBusinessRow(`mine-${end}`));
        assert.equal(first.outcome, "first", "whoever comes first must be the first");
        let settled = false;
        const second = later(
          rival.session.transaction((other) =>
            rival.outbox.inbox.once(other.handle, given, () => other.writeBusinessRow(`theirs-${end}`)),
          ) as Promise<OnceOutcome<unknown>>,
        );
        const seen = second.finally(() => {
          settled = true;
        });
        seen.catch(() => {});
        await turns(session);
        assert.ok(!settled, "a rival must wait for the transaction that is at the same event");
        await tx[end]();
        const { outcome } = await promptly(session, "a rival after the end of that transaction", () => seen);
        assert.equal(
          outcome,
          end === "commit" ? "seen" : "first",
          `after a ${end} the rival must be told so`,
        );
      }
      const rows = await session.probe.businessRows();
      assert.deepEqual(rows, ["mine-commit", "theirs-rollback"], "each event must have had its effect once");
    },
  },
];

/** Where a transaction has the database to itself there is no rival in the middle of one. */
async function oneAfterTheOther(t: CaseContext): Promise<void> {
  const { session } = t;
  const given = { consumer: "c", event: { source: "/shop", id: "1" } };
  const rival = await t.connect();
  const tx = await session.begin();
  await t.outbox.inbox.once(tx.handle, given, () => tx.writeBusinessRow("undone"));
  await tx.rollback();
  for (const outcome of ["first", "seen"] as const) {
    const once = await rival.session.transaction((other) =>
      rival.outbox.inbox.once(other.handle, given, () => other.writeBusinessRow("done")),
    );
    assert.equal(once.outcome, outcome, `after a rollback the next one must be ${outcome}`);
  }
  assert.deepEqual(await session.probe.businessRows(), ["done"], "the event must have had its effect once");
}

function begunOf(answer: Answer<BegunJson | string | number | null> | undefined): BegunJson {
  assert.ok(answer !== undefined, "every contender must answer");
  assert.ok("ok" in answer, `a begin must not fail, got ${"refused" in answer ? answer.refused : ""}`);
  return answer.ok as BegunJson;
}

/** One acquired it, with the token that is stored; for the others it is in flight. */
async function acquiredOnce(
  t: CaseContext,
  key: KeyName,
  answers: readonly (Answer<BegunJson | string | number | null> | undefined)[],
  what: string,
  attempt: number,
): Promise<void> {
  const begun = answers.map(begunOf);
  if (begun.every(({ outcome }) => outcome === "inFlight")) {
    // Where locked rows are skipped, a write that was refused, or a sweep, may have hidden the record from all of them.
    const late = await keysOf(t).begin(options(key));
    if (late.outcome === "acquired") {
      begun.push({ outcome: "acquired", attempt: late.claim.attempt, token: late.claim.token.reveal() });
    }
  }
  const winners = begun.filter(({ outcome }) => outcome === "acquired");
  assert.equal(winners.length, 1, `${what} must be acquired by one of them, got ${winners.length}`);
  assert.equal(winners[0]?.attempt, attempt, `${what} must be acquired as attempt ${attempt}`);
  for (const { outcome } of begun) {
    assert.ok(
      outcome === "acquired" || outcome === "inFlight",
      `${what} must be in flight for the others, got ${outcome}`,
    );
  }
  const stored = JSON.stringify(await t.session.probe.keys());
  assert.ok(
    stored.includes(winners[0]?.token ?? "none"),
    `${what} must be stored with the token of who acquired it`,
  );
}

export const keyRaceCases: readonly Case[] = cases.map(ifKeys);
