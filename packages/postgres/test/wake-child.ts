/** Subscribes at an address that never answers, closes, and has to exit by itself. */
import { setImmediate } from "node:timers/promises";
import { isDovecoteError } from "@dovecote/core";
import { postgres } from "../src/index.ts";

export interface WakeReport {
  readonly code: string;
}

const { schema, listenUrl } = JSON.parse(process.argv[2] ?? "") as Record<"schema" | "listenUrl", string>;
const dovecote = postgres(process.env.DOVECOTE_TEST_POSTGRES_URL ?? "", { schema, notify: { listenUrl } });
await dovecote.stats();
const subscribing = dovecote
  .subscribe(() => {})
  .then(
    () => "subscribed",
    (error: unknown) => (isDovecoteError(error) ? error.code : String(error)),
  );
await setImmediate();
await dovecote.close();
process.send?.({ code: await subscribing } satisfies WakeReport);
process.disconnect?.();
