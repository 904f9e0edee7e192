/** Commands about claims: taking, renewing and ending them, with proofs that are live, stale or forged. */
import assert from "node:assert/strict";
import { isDovecoteError } from "@dovecote/core";
import * as fc from "fast-check";
import type { ClaimJson } from "../engine/actors.ts";
import { anyClaim, command, latest, type ModelCommand } from "./command.ts";
import { streams, tenants } from "./enqueue-commands.ts";
import * as state from "./state.ts";
import { FAR_MS, type Store } from "./store.ts";

const LEASE_MS = 24 * 3600 * 1000;

export const via: fc.Arbitrary<state.Via> = fc.constantFrom<state.Via>("a", "b", "admin", "admin", "admin");

const claim: fc.Arbitrary<ModelCommand> = fc
  .record({
    // The admin handle would find the rows of other runs without a stream.
    scope: fc.oneof(
      fc.record({ via: tenants, stream: fc.option(streams, { nil: undefined }) }),
      fc.record({ via: fc.constant("admin" as const), stream: streams }),
    ),
    limit: fc.integer({ min: 1, max: 5 }),
    shared: fc.boolean(),
    worker: fc.constantFrom("w1", "w2"),
  })
  .map(claimCommand);

interface Claiming {
  readonly scope: { readonly via: state.Via; readonly stream: state.Stream | undefined };
  readonly limit: number;
  readonly shared: boolean;
  readonly worker: string;
}

export function claimCommand({ scope, limit, shared, worker }: Claiming): ModelCommand {
  return command({
    text: `claim(${scope.via}, ${JSON.stringify({ stream: scope.stream, limit, shared, worker })})`,
    async run(model, store) {
      const { expired, due } = state.claimable(model, scope.via, scope.stream);
      const reserved = Math.min(expired.length, Math.max(1, Math.floor(limit / 2)));
      const fromDue = Math.min(due.length, limit - reserved);
      const expected = [
        ...(await store.inOrderOf("expiresAt", expired)).slice(0, limit - fromDue),
        ...(await store.inOrderOf("availableAt", due)).slice(0, fromDue),
      ];
      const stream = scope.stream === undefined ? {} : { stream: store.stream(scope.stream) };
      const claims = await store
        .via(scope.via)
        .claim({ worker, limit, shared, leaseMs: LEASE_MS, ...stream });
      assert.deepEqual(
        claims.map(({ rowId }) => rowId),
        expected.map(({ rowId }) => rowId),
        "a claim must take the rows that the model takes, in their order",
      );
      for (const [index, row] of expected.entries()) {
        const answer = claims[index];
        const token = answer?.token.reveal() ?? "";
        assert.ok(
          model.claims.every((earlier) => earlier.token !== token),
          "every claim must have a token of its own",
        );
        const { attempt, forgiven, reclaimed, tenant, shared: isShared } = answer ?? {};
        assert.deepEqual(
          { attempt, forgiven, reclaimed, tenant, shared: isShared },
          {
            ...state.take(model, row, { token, worker, shared }),
            tenant: store.tenantId(row.tenant),
            shared,
          },
          "a claim must say what the model says of it",
        );
      }
    },
  });
}

/** Which claim is presented, and what about it is not true. Stale claims are many, live ones would rarely be met. */
const proof = fc.record({
  among: fc.constantFrom("live", "live", "all"),
  place: fc.nat(6),
  forged: fc.constantFrom("no", "no", "no", "no", "token", "token", "attempt", "token of another"),
});
type Proof = typeof proof extends fc.Arbitrary<infer T> ? T : never;

function presented(model: state.Model, { among, place, forged }: Proof): ClaimJson {
  const { claims } = model;
  const live = claims.filter(({ rowId, token }) => model.rows.get(rowId)?.claim?.token === token);
  const claim = latest(among === "live" && live.length > 0 ? live : claims, place);
  if (forged === "token") return { ...claim, token: [...claim.token].reverse().join("") };
  if (forged === "token of another") return { ...claim, token: latest(claims, place + 1).token };
  return forged === "attempt" ? { ...claim, attempt: claim.attempt + 1 } : claim;
}

const ending: fc.Arbitrary<state.Ending> = fc.oneof(
  fc.record({ action: fc.constant("ack" as const) }),
  fc.record({
    action: fc.constant("retry" as const),
    later: fc.constantFrom(false, false, true),
    code: fc.constantFrom("A", "B"),
  }),
  fc.record({ action: fc.constant("release" as const), later: fc.constantFrom(false, false, true) }),
  fc.record({
    action: fc.constant("quarantine" as const),
    reason: fc.constantFrom("poison", "unknown"),
    code: fc.constantFrom("A", null),
  }),
);

const settle: fc.Arbitrary<ModelCommand> = fc
  .record({
    via,
    items: fc.array(fc.record({ proof, ending }), { minLength: 1, maxLength: 3 }),
    single: fc.boolean(),
  })
  .map(({ via, items, single }) =>
    command({
      text: `settle(${via}, ${JSON.stringify(items)}${single ? ", one by one" : ""})`,
      possible: anyClaim,
      async run(model, store) {
        const batch = items.map((item) => ({ claim: presented(model, item.proof), ending: item.ending }));
        const expected = batch.map((item) => state.settle(model, via, item.claim, item.ending));
        const outcomes = single
          ? await oneByOne(
              batch.map(
                ({ claim, ending }) =>
                  () =>
                    settleOne(store.via(via), claim, ending),
              ),
            )
          : await store.via(via).settle(batch.map(({ claim, ending }) => ({ claim, ...settlement(ending) })));
        assert.deepEqual(outcomes, expected, "a settlement must be judged as in the model");
      },
    }),
  );

const renew: fc.Arbitrary<ModelCommand> = fc
  .record({ via, proofs: fc.array(proof, { minLength: 1, maxLength: 3 }), unshare: fc.boolean() })
  .map(({ via, proofs, unshare }) =>
    command({
      text: `renew(${via}, ${JSON.stringify(proofs)}${unshare ? ", unshared" : ""})`,
      possible: anyClaim,
      async run(model, store) {
        const claims = proofs.map((each) => presented(model, each));
        const expected = claims.map((each) => state.renew(model, via, each, unshare));
        const options = { leaseMs: LEASE_MS, ...(unshare && { shared: false as const }) };
        const outcomes = await store.via(via).renew(claims, options);
        const judged = outcomes.map((each) =>
          each.outcome === "applied" ? { outcome: each.outcome } : each,
        );
        assert.deepEqual(judged, expected, "a renewal must be judged as in the model");
      },
    }),
  );

/** As often as they stand here. */
export const claimCommands: readonly fc.Arbitrary<ModelCommand>[] = [
  ...[claim, claim, claim],
  ...[settle, settle, settle, settle, settle, settle],
  ...[renew, renew],
];

function settlement(given: state.Ending) {
  const delayMs = "later" in given && given.later ? FAR_MS : 0;
  const failure = (code: string) => ({ code, detail: "of the model" });
  switch (given.action) {
    case "ack":
      return { action: given.action };
    case "retry":
      return { action: given.action, delayMs, failure: failure(given.code) };
    case "release":
      return { action: given.action, delayMs };
    case "quarantine": {
      const { action, reason, code } = given;
      return { action, reason, ...(code !== null && { failure: failure(code) }) };
    }
  }
}

async function settleOne(
  handle: ReturnType<Store["via"]>,
  claim: ClaimJson,
  given: state.Ending,
): Promise<void> {
  const item = settlement(given);
  switch (item.action) {
    case "ack":
      return handle.ack(claim);
    case "retry":
      return handle.retry(claim, { delayMs: item.delayMs, failure: item.failure });
    case "release":
      return handle.release(claim, { delayMs: item.delayMs });
    case "quarantine": {
      const { action: _, ...options } = item;
      return handle.quarantine(claim, options);
    }
  }
}

/** The outcomes of single calls, from what they were refused with. */
export async function oneByOne(
  calls: readonly (() => Promise<unknown>)[],
): Promise<readonly state.Judgement[]> {
  const outcomes: state.Judgement[] = [];
  for (const call of calls) {
    try {
      await call();
      outcomes.push({ outcome: "applied" });
    } catch (error) {
      if (isDovecoteError(error, "NOT_FOUND")) outcomes.push({ outcome: "notFound" });
      else if (isDovecoteError(error, "LOST_CLAIM")) outcomes.push({ outcome: "lostClaim" });
      else if (isDovecoteError(error, "ILLEGAL_TRANSITION")) {
        outcomes.push({ outcome: "illegalTransition", state: error.state as state.ModelRow["state"] });
      } else throw error;
    }
  }
  return outcomes;
}
