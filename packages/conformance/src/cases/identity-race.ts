/** ID-04: one identity, several processes. */
import assert from "node:assert/strict";
import type { Case, CaseContext } from "../case.ts";

const CONTENDERS = 4;
const ROUNDS = 20;

export const identityRaceCases: readonly Case[] = [
  {
    id: "ID-04",
    level: 2,
    intent: "concurrent enqueues of one event: one is enqueued, the others find it",
    async run(t) {
      await contend(t, () => "same");
    },
  },
  {
    id: "ID-04",
    level: 2,
    intent:
      "concurrent enqueues of one identity with different content: one content wins, the other conflicts",
    async run(t) {
      await contend(t, (index) => `content ${index % 2}`);
    },
  },
];

/** Races one identity per round, each contender with the data that it is given. */
async function contend(t: CaseContext, dataOf: (contender: number) => string): Promise<void> {
  // Where one lock serves the whole database, waiting for it may come to an end.
  const retryable = [
    "SERIALIZATION_FAILURE",
    ...(t.capabilities.lockScope === "database" ? ["STORE_BUSY"] : []),
  ];
  const racing = t.race({
    contenders: CONTENDERS,
    rounds: ROUNDS,
    async prepare(round) {
      return Array.from({ length: CONTENDERS }, (_, index) => ({
        actor: "enqueue" as const,
        input: { id: `contended-${round}`, source: "/race", data: dataOf(index) },
      }));
    },
    async check(answers, round) {
      const winners = answers.flatMap((answer, index) =>
        "ok" in answer && answer.ok.outcome === "enqueued" ? [{ index, rowId: answer.ok.rowId }] : [],
      );
      assert.equal(winners.length, 1, "exactly one contender must be answered `enqueued`");
      const [winner] = winners as [(typeof winners)[number]];
      for (const [index, answer] of answers.entries()) {
        if (index === winner.index) continue;
        if ("ok" in answer) {
          const expected = { outcome: "alreadyEnqueued", rowId: winner.rowId };
          assert.deepEqual(answer.ok, expected, "the others must find the row of the winner");
          assert.equal(dataOf(index), dataOf(winner.index), "other content must not pass for the same event");
        } else if (answer.refused === "IDENTITY_CONFLICT") {
          assert.notEqual(dataOf(index), dataOf(winner.index), "the same content must not be a conflict");
        } else {
          assert.ok(retryable.includes(answer.refused), `a loser must not be refused with ${answer.refused}`);
          assert.ok(answer.retryable, "a loser that was told nothing else must be told to retry");
        }
      }
      const stored = (await t.session.probe.events()).filter(({ id }) => id === `contended-${round}`);
      assert.deepEqual(
        stored.map(({ rowId }) => rowId),
        [winner.rowId],
        "there must be one row, that of the winner",
      );
      const data = Buffer.from(JSON.stringify(dataOf(winner.index))).toString("hex");
      assert.equal(stored[0]?.data?.toLowerCase(), data, "the stored content must be that of the winner");
    },
  });
  try {
    await racing;
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    // A contender fails with whatever is no typed refusal, such as the database's own unique violation.
    assert.fail(`an enqueue that loses must be refused with a typed error, got ${String(error)}`);
  }
}
