/** Checks of arguments. Everything is refused here, before any I/O, with the path of what was wrong (ERR-03). */
import { BOUNDS, type Range } from "./bounds.ts";
import { DovecoteError } from "./errors.ts";
import { utf8Bytes } from "./event/text.ts";

/** What is longer is not shown: a claim token in the wrong place has 32 characters (ERR-04). */
const LONGEST_SHOWN = 24;

/** Shows a received value in a message: its type, and short scalars as they are; never an object's content. */
function shown(value: unknown): string {
  if (typeof value === "string") {
    return value.length <= LONGEST_SHOWN ? JSON.stringify(value) : `a string of ${value.length} characters`;
  }
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "an array" : "an object";
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  return String(value);
}

export function invalid(path: string, expected: string, received: unknown): DovecoteError {
  return new DovecoteError("INVALID_ARGUMENT", `${path} must be ${expected}, got ${shown(received)}`, {
    path,
  });
}

/** Only what is absent has a default: `null` is a value, and a wrong one. */
export function orDefault(value: unknown, fallback: unknown): unknown {
  return value === undefined ? fallback : value;
}

/** A whole number within a range. Refuses NaN, fractions, infinities and numeric strings. */
export function checkWhole(value: unknown, { min, max }: Range, path: string): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    throw invalid(path, `a whole number from ${min} to ${max}`, value);
  }
  return value === 0 ? 0 : value; // -0 is 0
}

const ROW_ID: Range = { min: 1, max: Number.MAX_SAFE_INTEGER };
const ATTEMPT: Range = { min: 1, max: BOUNDS.attempt };
const CURSOR: Range = { min: 0, max: Number.MAX_SAFE_INTEGER };

export function checkRowId(value: unknown, path: string): number {
  return checkWhole(value, ROW_ID, path);
}

export function checkAttempt(value: unknown, path: string): number {
  return checkWhole(value, ATTEMPT, path);
}

export function checkCursor(value: unknown, path: string): number {
  return checkWhole(value, CURSOR, path);
}

export function checkBoolean(value: unknown, path: string): boolean {
  if (typeof value !== "boolean") throw invalid(path, "true or false", value);
  return value;
}

/** A non-empty text without NUL and lone surrogates, at most `maxBytes` long in UTF-8 (DATA-02). */
export function checkName(value: unknown, maxBytes: number, path: string): string {
  if (typeof value !== "string" || value === "") throw invalid(path, "a non-empty string", value);
  if (value.includes("\0")) throw invalid(path, "a string without NUL", value);
  if (!value.isWellFormed()) throw invalid(path, "a string without lone surrogates", value);
  const bytes = utf8Bytes(value);
  if (bytes > maxBytes) throw invalid(path, `at most ${maxBytes} bytes long`, `${bytes} bytes`);
  return value;
}

/** An options object without unknown members: a misspelt option is refused instead of ignored. */
export function checkOptions(
  value: unknown,
  known: readonly string[],
  path: string,
): Record<string, unknown> {
  if (value === undefined) return {};
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(path, "an object", value);
  for (const member of Object.keys(value)) {
    if (!known.includes(member)) {
      const message = `${path} has an unknown member ${shown(member)}; known are ${known.join(", ")}`;
      throw new DovecoteError("INVALID_ARGUMENT", message, { path: `${path}.${member}` });
    }
  }
  return { ...value };
}

/** A list with 1 to 1000 members. */
export function checkBatch(value: readonly unknown[], path: string): void {
  if (value.length < BOUNDS.limit.min || value.length > BOUNDS.limit.max) {
    throw invalid(path, `a list of ${BOUNDS.limit.min} to ${BOUNDS.limit.max}`, `${value.length} members`);
  }
}
