/** A driver whose claims, renewals and settlements are written into a history. */
import type { ClaimProof, SettleItem } from "@dovecote/core";
import type { AnyDriver } from "../../src/define-harness.ts";
import { idOf } from "../../src/engine/soak-role.ts";
import type { Subject, Verb } from "../../src/history/operation.ts";
import { type ItemResult, type Recorder, tokenHash } from "../../src/history/record.ts";
import { override } from "../../src/override.ts";

type Proven = ClaimProof & { readonly leaseMs?: number };

export function recordedDriver(driver: AnyDriver, recorder: Recorder): AnyDriver {
  const ids = new Map<number, string>();
  const subjectOf = ({ rowId, attempt, token, leaseMs }: Proven): Subject => ({
    ...{ id: ids.get(rowId) ?? "never claimed here", rowId, attempt, token: hashOf(token) },
    ...(leaseMs !== undefined && { leaseMs }),
  });

  /** One call of the driver, which is several calls in the history where its items are of several kinds. */
  async function judged<Item extends Proven, Outcome extends { readonly outcome: string }>(
    items: readonly Item[],
    verbOf: (item: Item) => Verb,
    make: () => Promise<readonly Outcome[]>,
  ): Promise<readonly Outcome[]> {
    const written = Promise.withResolvers<void>();
    const answer = written.promise.then(make);
    const kinds = Map.groupBy(items.entries(), ([, item]) => verbOf(item));
    const recorded = [...kinds].map(([verb, entries]) => {
      const subjects = entries.map(([, item]) => subjectOf(item));
      return recorder.call(verb, subjects, async () => {
        const outcomes = await answer;
        const results = entries.map(([at], index): ItemResult => {
          const said = outcomes[at]?.outcome ?? "unanswered";
          return { ...subjects[index], type: said === "applied" ? "ok" : "fail", answer: said };
        });
        return { value: null, items: results };
      });
    });
    written.resolve();
    await Promise.all(recorded);
    return answer;
  }

  return override(driver, {
    async claim(request) {
      const { leaseMs } = request;
      let answer: ReturnType<AnyDriver["claim"]> | undefined;
      await recorder.call("claim", [], async () => {
        answer = driver.claim(request);
        const value = await answer;
        const items = value.map(({ rowId, tenant, attempt, token, reclaimed, event }): ItemResult => {
          ids.set(rowId, idOf(tenant, event.id));
          const subject = subjectOf({ rowId, attempt, token, leaseMs });
          return { ...subject, type: "ok", answer: reclaimed ? "reclaimed" : "claimed" };
        });
        return { value, items };
      });
      return answer ?? [];
    },
    renew: (tenant, items) =>
      judged(
        items,
        () => "renew",
        () => driver.renew(tenant, items),
      ),
    settle: (tenant, items) =>
      judged(
        items.filter(isProven),
        ({ action }) => action,
        () => driver.settle(tenant, items),
      ),
  });
}

/** A relay settles nothing else. */
function isProven(item: SettleItem): item is Exclude<SettleItem, { readonly action: "quarantinePending" }> {
  return item.action !== "quarantinePending";
}

function hashOf(token: Uint8Array): string {
  return tokenHash(Buffer.from(token).toString("hex"));
}
