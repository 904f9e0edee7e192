/**
 * The race engine. Contenders are processes with connections of their own: a broken claim passes every trial inside
 * one process and fails across several. They are released together at a moment of the monotonic clock, and a round in
 * which no two calls overlapped does not count.
 */
import assert from "node:assert/strict";
import type { Json } from "../define-harness.ts";
import type { ActorAnswer, ActorInput, ActorName } from "./actors.ts";
import type { ContenderPool } from "./pool.ts";

/**
 * How long before the release the command is sent, in ns: longer than it takes to arrive. Grows when it came late, as
 * on a busy machine, and shrinks again slowly.
 */
const SHORTEST_LEAD_NS = 4_000_000n;
const LONGEST_LEAD_NS = 128_000_000n;

export interface RacePlan<Name extends ActorName> {
  readonly contenders: number;
  /** Rounds in which calls overlapped that are wanted. Others are repeated, up to {@link PATIENCE} times as many. */
  readonly rounds: number;
  /** Prepares a round and says who does what in it, one entry per contender. */
  prepare(round: number): Promise<readonly { readonly actor: Name; readonly input: ActorInput<Name> }[]>;
  /** Asserts about a round; answers are in the order of the contenders. Called for every round, overlapping or not. */
  check(answers: readonly ActorAnswer<Name>[], round: number): Promise<void>;
}

export interface RaceReport {
  /** Rounds that were run, overlapping or not. */
  readonly rounds: number;
  readonly overlaps: number;
}

/** On a machine with fewer cores than contenders many rounds miss. */
const PATIENCE = 10;

export async function race<Name extends ActorName>(
  pool: ContenderPool,
  { locator, mutant }: { readonly locator: Json; readonly mutant: string | null },
  plan: RacePlan<Name>,
): Promise<RaceReport> {
  const contenders = await pool.acquire(plan.contenders, locator, mutant);
  let rounds = 0;
  let overlaps = 0;
  let leadNs = SHORTEST_LEAD_NS;
  try {
    for (; overlaps < plan.rounds && rounds < plan.rounds * PATIENCE; rounds++) {
      const tasks = await plan.prepare(rounds);
      assert.equal(tasks.length, contenders.length, "the race was given one task per contender");
      const at = process.hrtime.bigint() + leadNs;
      const replies = await Promise.all(
        contenders.map(async (contender, index) => {
          const { actor, input } = tasks[index] as { actor: Name; input: ActorInput<Name> };
          const reply = await contender.send({ kind: "act", actor, input, at: String(at) });
          if (reply.kind !== "done") throw new Error(`a contender answered ${reply.kind} to act`);
          return {
            answer: reply.answer as ActorAnswer<Name>,
            late: reply.late,
            from: BigInt(reply.from),
            to: BigInt(reply.to),
          };
        }),
      );
      if (overlapping(replies)) overlaps += 1;
      leadNs = nextLead(
        leadNs,
        replies.some(({ late }) => late),
      );
      await plan.check(
        replies.map(({ answer }) => answer),
        rounds,
      );
    }
  } catch (error) {
    await pool.discard(contenders);
    throw error;
  }
  await pool.release(contenders);
  const minimum = Math.ceil(plan.rounds / 2);
  assert.ok(
    overlaps >= minimum,
    `calls overlapped in ${overlaps} of ${rounds} rounds, ${minimum} are needed`,
  );
  return { rounds, overlaps };
}

function nextLead(leadNs: bigint, late: boolean): bigint {
  const next = late ? leadNs * 2n : (leadNs * 9n) / 10n;
  if (next < SHORTEST_LEAD_NS) return SHORTEST_LEAD_NS;
  return next > LONGEST_LEAD_NS ? LONGEST_LEAD_NS : next;
}

function overlapping(calls: readonly { readonly from: bigint; readonly to: bigint }[]): boolean {
  return calls.some((a, i) => calls.some((b, j) => i < j && a.from < b.to && b.from < a.to));
}
