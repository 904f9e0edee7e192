/** What tells a verdict of a handler from a failure, also across two copies of the package. */
export const BRAND: unique symbol = Symbol.for("dovecote.relay.verdict") as never;

export function isVerdict(thrown: unknown): boolean {
  try {
    return typeof thrown === "object" && thrown !== null && (thrown as { [BRAND]?: unknown })[BRAND] === true;
  } catch {
    return false; // a proxy, or a getter that throws
  }
}
