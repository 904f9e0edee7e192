import type { Relay, RelayOptions } from "@dovecote/core";
import type { Outbox } from "../../case.ts";
import { override } from "../../override.ts";
import { breaking } from "./breaking.ts";
import { deliveryOf, hex, type SemanticMutant } from "./define.ts";

export const relay: readonly SemanticMutant[] = [
  breaking("leases-are-not-renewed", "RELAY-01", /must not be run twice/, () => ({
    renew: async (_tenant, items) => items.map(() => ({ outcome: "applied", expiresAt: 0 })),
  })),
  breaking(
    "crashes-count-against-bystanders",
    "RELAY-02",
    /it alone, must be quarantined|no earlier one/,
    (driver) => ({
      claim: (request) => driver.claim({ ...request, shared: false }),
    }),
  ),
  breaking("suspects-stay-shared", "RELAY-02", /must not kill more processes/, (driver) => ({
    renew: (tenant, items) =>
      driver.renew(
        tenant,
        items.map((item) => ({ ...item, unshare: false })),
      ),
  })),
  {
    name: "a-zombie-settles",
    breaks: "RELAY-03",
    because: /the outcome of a zombie/,
    wrap: (session) =>
      override(session.driver, {
        async settle(tenant, items) {
          const forged = items.map(async (item) => {
            const row = await deliveryOf(session, item.rowId);
            if (!("token" in item) || !row?.token) return item;
            return { ...item, attempt: row.attempts, token: Buffer.from(row.token, "hex") };
          });
          return session.driver.settle(tenant, await Promise.all(forged));
        },
      }),
  },
  relaying("outcomes-are-always-confirmed", "RELAY-04", /as unconfirmed/, (options) => ({
    ...options,
    hooks: {
      ...options.hooks,
      delivered: (ended) => options.hooks?.delivered?.({ ...ended, confirmed: true }),
    },
  })),
  {
    name: "an-outage-ends-the-relay",
    breaks: "RELAY-05",
    because: /must be delivered after the outage|must go on asking/,
    wrapOutbox: (outbox) =>
      withRelay(outbox, (options, make) => {
        const failed = new AbortController();
        const hooks = {
          ...options.hooks,
          error(event: Parameters<NonNullable<NonNullable<RelayOptions["hooks"]>["error"]>>[0]) {
            options.hooks?.error?.(event);
            failed.abort();
          },
        };
        const made = make({ ...options, hooks });
        return { ...made, run: () => made.run({ signal: failed.signal }) };
      }),
  },
  relaying("only-errors-count-as-failures", "RELAY-06", /must be tried again/, (options) => ({
    ...options,
    async deliver(event, context) {
      try {
        await options.deliver(event, context);
      } catch (thrown) {
        if (thrown instanceof Error) throw thrown;
      }
    },
  })),
  breaking("tokens-are-recorded", "RELAY-06", /a token must not be recorded/, (driver) => ({
    settle: (tenant, items) =>
      driver.settle(
        tenant,
        items.map((item) =>
          item.action === "retry"
            ? { ...item, failure: { ...item.failure, detail: `with ${hex(item.token)}` } }
            : item,
        ),
      ),
  })),
  breaking("what-was-not-started-is-kept", "RELAY-07", /must be released at once/, (driver) => ({
    async settle(tenant, items) {
      const kept = items.filter(({ action }) => action !== "release");
      const outcomes = kept.length === 0 ? [] : await driver.settle(tenant, kept);
      return items.map((item) => outcomes[kept.indexOf(item)] ?? { outcome: "applied" });
    },
  })),
];

/** A relay that is made with other options than it was given. */
function relaying(
  name: string,
  breaks: string,
  because: RegExp,
  change: (options: RelayOptions) => RelayOptions,
): SemanticMutant {
  return {
    name,
    breaks,
    because,
    wrapOutbox: (outbox) => withRelay(outbox, (options, make) => make(change(options))),
  };
}

function withRelay(
  outbox: Outbox,
  relayOf: (options: RelayOptions, make: (options: RelayOptions) => Relay) => Relay,
): Outbox {
  return override(outbox, {
    admin() {
      const admin = outbox.admin();
      return override(admin, { relay: (options) => relayOf(options, (changed) => admin.relay(changed)) });
    },
  });
}
