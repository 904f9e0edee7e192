export type VerdictKind = "retryLater" | "quarantine" | "release";

/** What tells a verdict of a handler from a failure, and which; also across two copies of the package, and in subclasses. */
export const BRAND: unique symbol = Symbol.for("dovecote.relay.verdict") as never;

export function verdictKind(thrown: unknown): VerdictKind | undefined {
  try {
    if (typeof thrown !== "object" || thrown === null) return undefined;
    return (thrown as { [BRAND]?: VerdictKind })[BRAND];
  } catch {
    return undefined; // a proxy, or a getter that throws
  }
}
