/** A server in a process of its own, which can be told to die. It says where it listens. */
import type { AddressInfo } from "node:net";
import type { RouteOptions } from "../src/options.ts";
import { type Kind, listen, type Options } from "./apps.ts";
import { type Driver, openSpace } from "./stores.ts";

export interface ChildSetup {
  readonly kind: Kind;
  readonly driver: Driver;
  readonly address: string;
  readonly options?: Options;
  readonly route?: RouteOptions<never>;
  /** After the handler's answer is committed, and before it leaves. */
  readonly diesCommitted?: boolean;
}

const die = (): Promise<never> => {
  process.kill(process.pid, "SIGKILL");
  // The signal may take a moment: nothing happens until then.
  return new Promise(() => {});
};

const { driver, address, diesCommitted, ...setup } = JSON.parse(process.argv[2] ?? "") as ChildSetup;
const space = openSpace(driver, address);
const { keys } = space.store;
const mortal = {
  keys: {
    ...keys,
    run: async (...given: Parameters<typeof keys.run>) => {
      const outcome = await keys.run(...given);
      return outcome.outcome === "completed" ? die() : outcome;
    },
  },
  transaction: space.store.transaction,
} as typeof space.store;
const { server } = await listen({
  ...setup,
  space: { ...space, store: diesCommitted === true ? mortal : space.store },
  // Only the first attempt: the one that takes over must live.
  stop: (_, attempt) => (attempt === 1 ? die() : undefined),
});
process.send?.((server.address() as AddressInfo).port);
