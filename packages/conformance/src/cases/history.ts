/** Everything at once: what processes that run freely saw has to be explicable by a store that keeps its promises. */
import assert from "node:assert/strict";
import type { Case } from "../case.ts";
import { missing } from "../engine/soak-report.ts";
import { explain } from "../history/check.ts";

export const historyCases: readonly Case[] = [
  {
    id: "HIST-01",
    level: 3,
    intent:
      "a soak with rollbacks, kills and stops: nothing lost, invented, held, paid or ended twice, or written by a stale claim",
    async run(t) {
      const payers = t.capabilities.keys ? 2 : 0;
      const report = await t.soak({ durationMs: t.soakMs, producers: 2, workers: 3, payers });
      assert.ok(report.violations.length === 0, explain(report.violations, report.seed));
      assert.deepEqual(report.untyped, [], `every rejection must be typed; seed ${report.seed}`);
      const { violations: _, ...counts } = report;
      assert.deepEqual(
        missing(report, report),
        [],
        `without these the history would be clean because nothing happened: ${JSON.stringify(counts)}`,
      );
    },
  },
];
