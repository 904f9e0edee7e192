/** Claim tokens: drawn from the operating system's CSPRNG, and hidden from everything that prints. */
import { randomBytes } from "node:crypto";
import { invalid } from "./arguments.ts";
import { BOUNDS } from "./bounds.ts";
import { DovecoteError } from "./errors.ts";
import { fromHex, toHex } from "./hex.ts";

/** A source of random bytes; `node:crypto`'s by default, injectable for tests. */
export type RandomBytes = (size: number) => Uint8Array;

const HEX = /^[0-9a-f]{32}$/;

/**
 * The random 128-bit token of one claim. Shows itself as `[claim token]` in strings, JSON and inspection (ERR-04);
 * only {@link ClaimToken.reveal} gives it away.
 */
export class ClaimToken {
  readonly #hex: string;

  constructor(bytes: Uint8Array) {
    this.#hex = toHex(bytes);
  }

  /** The token as 32 hexadecimal digits, for handing a claim to another process. Treat it like a password. */
  reveal(): string {
    return this.#hex;
  }

  toString(): string {
    return "[claim token]";
  }

  toJSON(): string {
    return "[claim token]";
  }

  static {
    // What `util.inspect` looks for; registered by name, so that nothing of Node is imported.
    const inspect = Symbol.for("nodejs.util.inspect.custom");
    Object.defineProperty(ClaimToken.prototype, inspect, { value: ClaimToken.prototype.toString });
  }
}

/** The bytes of a token given as a `ClaimToken` (of whichever copy of the package) or as its 32 hex digits. */
export function tokenBytes(value: unknown, path: string): Uint8Array {
  const hex = isRevealable(value) ? value.reveal() : value;
  if (typeof hex !== "string" || !HEX.test(hex)) {
    // The value is never shown: a mistyped token is still most of a token.
    throw invalid(path, "a claim token or its 32 lower-case hex digits", `a ${typeof value}`);
  }
  return fromHex(hex);
}

function isRevealable(value: unknown): value is { reveal(): unknown } {
  return (
    typeof value === "object" && value !== null && "reveal" in value && typeof value.reveal === "function"
  );
}

/**
 * Draws `count` distinct tokens. A source that throws, falls short or repeats itself is `ENTROPY_UNAVAILABLE`; there
 * is no fallback to time, counters or a PRNG (CLAIM-09, CLAIM-10).
 */
export function drawTokens(source: RandomBytes, count: number): readonly Uint8Array[] {
  const size = BOUNDS.tokenBytes;
  let bytes: Uint8Array;
  try {
    bytes = source(size * count);
  } catch (cause) {
    throw new DovecoteError("ENTROPY_UNAVAILABLE", "the source of random bytes failed; nothing was claimed", {
      cause,
    });
  }
  const seen = new Set<string>();
  const tokens: Uint8Array[] = [];
  for (let offset = 0; offset + size <= bytes.length && tokens.length < count; offset += size) {
    const token = bytes.subarray(offset, offset + size);
    seen.add(toHex(token));
    tokens.push(token);
  }
  if (seen.size !== count) {
    const message = "the source of random bytes fell short or repeated itself; nothing was claimed";
    throw new DovecoteError("ENTROPY_UNAVAILABLE", message);
  }
  return tokens;
}

export const systemRandomBytes: RandomBytes = randomBytes;
