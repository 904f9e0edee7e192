/** What an idempotency key belongs to, and the digests under which it is stored: neither key nor scope can be read back. */
import { checkOptions, invalid } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import { DovecoteError } from "../errors.ts";
import { utf8Bytes } from "../event/text.ts";
import { digestOf } from "./frame.ts";

/** One operation of one caller: the same key elsewhere is another key (KEY-05). */
export interface KeyScope {
  /** Who calls, such as a user's id, at most 1024 bytes. `null` says that the callers are not told apart. */
  readonly principal: string | null;
  /** At most 32 bytes, taken as it is: `POST` and `post` are two methods. */
  readonly method: string;
  /** At most 8192 bytes, taken as it is. */
  readonly path: string;
}

/** Under which a key is stored, each 32 bytes. */
export interface KeyDigests {
  readonly scope: Uint8Array;
  /** Of the key within its scope. */
  readonly key: Uint8Array;
  /** Of the tenant's principal, for forgetting all keys of one; `null` if none was named. */
  readonly principal: Uint8Array | null;
}

const PRINTABLE_ASCII = /^[\x20-\x7e]+$/;

/**
 * With a secret, digests cannot be guessed from a copy of the database; short keys could be without.
 *
 * @throws `INVALID_ARGUMENT`, which never shows the key.
 */
export function keyDigests(
  tenant: string,
  scope: unknown,
  key: unknown,
  secret: Uint8Array | undefined,
): KeyDigests {
  const { principal, method, path } = checkScope(scope);
  const scoped = digestOf("scope", [tenant, principal, method, path], secret);
  return {
    scope: scoped,
    key: digestOf("key", [scoped, checkKey(key)], secret),
    principal: principal === null ? null : principalDigest(tenant, principal, secret),
  };
}

export function principalDigest(
  tenant: string,
  principal: unknown,
  secret: Uint8Array | undefined,
): Uint8Array {
  return digestOf(
    "principal",
    [tenant, checkText(principal, BOUNDS.principalBytes, "options.principal")],
    secret,
  );
}

function checkScope(given: unknown): KeyScope {
  if (given === undefined) throw invalid("options.scope", "{ principal, method, path }", given);
  const { principal, method, path } = checkOptions(given, ["principal", "method", "path"], "options.scope");
  if (principal === undefined) {
    throw invalid(
      "options.scope.principal",
      "who calls, or null where callers are not told apart",
      principal,
    );
  }
  return {
    principal:
      principal === null ? null : checkText(principal, BOUNDS.principalBytes, "options.scope.principal"),
    method: checkText(method, BOUNDS.methodBytes, "options.scope.method"),
    path: checkText(path, BOUNDS.pathBytes, "options.scope.path"),
  };
}

/** Any text but an empty one: only its digest is stored. A lone surrogate has no bytes of its own to be digested. */
function checkText(value: unknown, maxBytes: number, path: string): string {
  if (typeof value !== "string" || value === "") throw invalid(path, "a non-empty string", value);
  if (!value.isWellFormed()) throw invalid(path, "a string without lone surrogates", value);
  const bytes = utf8Bytes(value);
  if (bytes > maxBytes) throw invalid(path, `at most ${maxBytes} bytes long`, `${bytes} bytes`);
  return value;
}

function checkKey(value: unknown): string {
  const { idempotencyKeyBytes: max } = BOUNDS;
  if (typeof value === "string" && value.length <= max && PRINTABLE_ASCII.test(value)) return value;
  const path = "options.key";
  const expected = `1 to ${max} printable ASCII characters`;
  if (typeof value !== "string") throw invalid(path, expected, value);
  // A key may be somebody's secret: only its length is shown.
  throw new DovecoteError("INVALID_ARGUMENT", `${path} must be ${expected}, got ${value.length} others`, {
    path,
  });
}
