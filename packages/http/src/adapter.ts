/** What the adapters have in common: a gate with its options, and routes with theirs. */
import { invalid } from "@dovecote/core";
import { Counts, type CountsByOutcome } from "./counts.ts";
import type { KeyStore, Setting } from "./handling.ts";
import { type GateOptions, type Plan, type RouteOptions, toPlan } from "./options.ts";

/** A handle, or whose handle a request is about: a tenant's, for example. */
export type StoreOf<Request, Tx, Sync extends boolean, Own extends Tx> =
  | KeyStore<Tx, Sync, Own>
  | ((request: Request) => KeyStore<Tx, Sync, Own>);

export interface Counting {
  /** How requests fared since the gate was made. */
  counts(): CountsByOutcome;
}

export interface Gate<Request, Tx, Sync extends boolean, Own extends Tx> extends Counting {
  /** @throws `INVALID_ARGUMENT`. */
  route(given: readonly [options: unknown, handler: unknown] | readonly [handler: unknown]): {
    readonly plan: Plan<Request>;
    readonly handler: unknown;
    readonly setting: (request: Request) => Setting<Request, Tx, Sync, Own>;
  };
}

/** @throws `INVALID_ARGUMENT`. */
export function createGate<Request, Tx, Sync extends boolean, Own extends Tx>(
  store: StoreOf<Request, Tx, Sync, Own>,
  options: GateOptions<Request>,
): Gate<Request, Tx, Sync, Own> {
  if (typeof store !== "function" && typeof store?.keys?.run !== "function") {
    throw invalid("store", "a Dovecote handle, or a function that answers one", store);
  }
  // Now, and not with the first route.
  toPlan<Request>(options, {});
  const counts = new Counts();
  return {
    counts: () => counts.snapshot(),
    route(given) {
      const [routeOptions, handler] = given.length === 1 ? [{}, given[0]] : given;
      if (typeof handler !== "function") throw invalid("handler", "a function", handler);
      const plan = toPlan<Request>(options, routeOptions as RouteOptions<Request>);
      return {
        plan,
        handler,
        setting: (request) => ({
          store: typeof store === "function" ? store(request) : store,
          plan,
          counts,
          request,
        }),
      };
    },
  };
}

/** Synchronous where the driver's transactions are. */
export type Answering<Sync extends boolean, Answer> = Sync extends true ? Answer : Answer | Promise<Answer>;
