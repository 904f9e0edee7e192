import { type ClaimRequest, DovecoteError } from "@dovecote/core";
import type { AnyDriver, ProbedDelivery, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";
import type { SemanticMutant } from "./define.ts";

const MAX_ATTEMPT = 2_147_483_647;
const TOKEN_BYTES = 16;
const UNCLAIMED = { token: null, worker: null, shared: null, expiresAt: null } as const;

export const claim: readonly SemanticMutant[] = [
  {
    name: "claim-beyond-limit",
    breaks: "CLAIM-01",
    because: /must not claim more than that/,
    wrap: (session) => requesting(session, (request) => ({ limit: Math.min(1000, request.limit + 1) })),
  },
  {
    name: "claim-answers-without-commit",
    breaks: "CLAIM-02",
    because: /what `claim` answered must be committed/,
    wrap: ({ driver, faults }) =>
      override(driver, {
        async claim(request) {
          const rows = await driver.claim(request);
          for (const { rowId, attempt } of rows) {
            await faults.overwriteDelivery(rowId, { state: "pending", attempts: attempt - 1, ...UNCLAIMED });
          }
          return rows;
        },
      }),
  },
  {
    name: "claim-waits-for-work",
    breaks: "CLAIM-04",
    because: /must answer \[\] promptly/,
    wrap: ({ driver }) =>
      override(driver, {
        async claim(request) {
          const rows = await driver.claim(request);
          return rows.length > 0 ? rows : new Promise<never>(() => {});
        },
      }),
  },
  {
    name: "claim-ignores-availability",
    breaks: "CLAIM-05",
    because: /before an event is due/,
    wrap: (session) =>
      changingBefore(session, ({ state, availableAt }, now) =>
        state === "pending" && availableAt > now ? { availableAt: now } : undefined,
      ),
  },
  {
    name: "claim-ignores-its-stream",
    breaks: "CLAIM-06",
    because: /must answer exactly those/,
    wrap: (session) => requesting(session, () => ({ stream: null })),
  },
  {
    name: "claim-ignores-its-tenant",
    breaks: "CLAIM-06",
    because: /must answer exactly those/,
    wrap: (session) => requesting(session, () => ({ tenant: null })),
  },
  {
    name: "claim-answers-in-row-order",
    breaks: "CLAIM-07",
    because: /must answer in order/,
    wrap: ({ driver }) =>
      override(driver, {
        claim: async (request) => (await driver.claim(request)).toSorted((a, b) => a.rowId - b.rowId),
      }),
  },
  {
    name: "tokens-from-a-counter",
    breaks: "CLAIM-09",
    because: /of the tokens must be random/,
    wrap: (session) => {
      let drawn = 0n;
      return requesting(session, () => ({
        drawTokens: (count) =>
          Array.from({ length: count }, () => {
            drawn += 1n;
            return Buffer.from(drawn.toString(16).padStart(2 * TOKEN_BYTES, "0"), "hex");
          }),
      }));
    },
  },
  {
    name: "tokens-fall-back-to-math-random",
    breaks: "CLAIM-10",
    because: /must be refused with ENTROPY_UNAVAILABLE, but it was accepted/,
    wrap: (session) =>
      requesting(session, ({ drawTokens }) => ({
        drawTokens(count) {
          try {
            return drawTokens(count);
          } catch {
            const byte = (): number => Math.floor(Math.random() * 256);
            return Array.from({ length: count }, () => Uint8Array.from({ length: TOKEN_BYTES }, byte));
          }
        },
      })),
  },
  {
    name: "claim-stops-behind-a-live-lease",
    breaks: "CLAIM-11",
    because: /must not stop other events/,
    wrap: ({ driver, probe }) =>
      override(driver, {
        async claim(request) {
          const now = await probe.now();
          const rows = await probe.deliveries();
          return rows.some(({ expiresAt }) => (expiresAt ?? 0) > now) ? [] : driver.claim(request);
        },
      }),
  },
  {
    name: "claim-revives-terminal-rows",
    breaks: "CLAIM-12",
    because: /a claim among terminal rows/,
    wrap: (session) =>
      changingBefore(session, ({ state }) =>
        state === "delivered" || state === "quarantined"
          ? { state: "pending", deliveredAt: null, quarantinedAt: null, quarantineReason: null }
          : undefined,
      ),
  },
  {
    name: "attempt-wraps",
    breaks: "CLAIM-13",
    because: /exhausted/,
    wrap: (session) =>
      changingBefore(session, ({ attempts }) =>
        attempts === MAX_ATTEMPT ? { attempts: 0, forgiven: 0 } : undefined,
      ),
  },
  {
    name: "attempt-counted-at-its-end",
    breaks: "CLAIM-13",
    because: /the attempt must be stored on return/,
    wrap: ({ driver, faults }) =>
      override(driver, {
        async claim(request) {
          const rows = await driver.claim(request);
          for (const { rowId, attempt } of rows) {
            await faults.overwriteDelivery(rowId, { attempts: attempt - 1 });
          }
          return rows;
        },
        async settle(tenant, items) {
          for (const item of items) {
            if ("attempt" in item) await faults.overwriteDelivery(item.rowId, { attempts: item.attempt });
          }
          return driver.settle(tenant, items);
        },
      }),
  },
  {
    name: "claim-commits-row-by-row",
    breaks: "CLAIM-14",
    because: /that repeats the stored one must leave every row byte-identical/,
    wrap: ({ driver }) =>
      override(driver, {
        async claim(request) {
          const rows = [];
          while (rows.length < request.limit) {
            const [row] = await driver.claim({ ...request, limit: 1 });
            if (row === undefined) break;
            rows.push(row);
          }
          return rows;
        },
      }),
  },
  {
    name: "undecodable-row-fails-its-batch",
    breaks: "CLAIM-15",
    because: /a claim of rows that cannot be decoded must not be refused/,
    wrap: ({ driver }) =>
      override(driver, {
        async claim(request) {
          const rows = await driver.claim(request);
          for (const { event } of rows) {
            if (event.dataKind === "json" && !isJson(event.data)) {
              throw new DovecoteError("INTEGRITY", "the stored event cannot be decoded");
            }
          }
          return rows;
        },
      }),
  },
];

/** A driver that is asked for something else than what its caller asked for. */
function requesting(
  { driver }: Session,
  change: (request: ClaimRequest) => Partial<ClaimRequest>,
): AnyDriver {
  return override(driver, { claim: (request) => driver.claim({ ...request, ...change(request) }) });
}

/** A driver that claims rows which are not claimable as they are: they are changed behind its back, just before. */
function changingBefore(
  { driver, probe, faults }: Session,
  change: (row: ProbedDelivery, now: number) => Partial<Omit<ProbedDelivery, "rowId">> | undefined,
): AnyDriver {
  return override(driver, {
    async claim(request) {
      const now = await probe.now();
      for (const row of await probe.deliveries()) {
        const columns = change(row, now);
        if (columns !== undefined) await faults.overwriteDelivery(row.rowId, columns);
      }
      return driver.claim(request);
    },
  });
}

function isJson(data: Uint8Array | null): boolean {
  try {
    JSON.parse(Buffer.from(data ?? []).toString());
    return true;
  } catch {
    return false;
  }
}
