/**
 * Fingerprints of requests: a key that comes back with another request is a mismatch, and never a wrong replay (KEY-04).
 * Each algorithm has an id, which is stored beside the digest: two digests are compared only if theirs is the same.
 */
import canonicalize from "canonicalize";
import jsonc from "jsonc-parser";
import { isSafeNumber } from "lossless-json";
import { checkOptions, invalid } from "../arguments.ts";
import { DovecoteError } from "../errors.ts";
import { digestOf, type Part } from "./frame.ts";

export interface Fingerprint {
  /** Such as `json-1`. At most 64 of `a-z`, `0-9`, `.`, `_` and `-`. */
  readonly algorithm: string;
  /** 16 to 64 bytes. */
  readonly digest: Uint8Array;
}

/** A declared field: its values, in order, or what a file was declared to be. */
export type DeclaredField = string | readonly string[] | DeclaredFile;

/** A file by what the request says of it, never by its bytes: so that nobody has to hold an upload to compare it. */
export interface DeclaredFile {
  readonly filename: string | null;
  readonly type: string | null;
}

export interface Fingerprints {
  /**
   * Of bytes as they are: two spellings of one JSON value differ.
   *
   * @throws `INVALID_ARGUMENT`.
   */
  bytes(data: Uint8Array): Fingerprint;
  /**
   * Of a JSON text by its canonical form (RFC 8785): the order of members and white space do not matter.
   *
   * @throws `INVALID_ARGUMENT` if it is no JSON, has a member twice, or a number that a double cannot hold exactly: two
   * requests that a server may tell apart must not become one.
   * @example
   * fingerprint.json('{"b":1,"a":2}') // as of {"a":2,"b":1}
   */
  json(text: string | Uint8Array): Fingerprint;
  /**
   * Of fields that the application declares, by name. The order of names does not matter, that of values does.
   *
   * @throws `INVALID_ARGUMENT`.
   */
  fields(fields: Readonly<Record<string, DeclaredField>>): Fingerprint;
  /**
   * Of a digest that somebody else made, such as a verified `Content-Digest`; `algorithm` has to say how.
   *
   * @throws `INVALID_ARGUMENT`.
   */
  given(algorithm: string, digest: Uint8Array): Fingerprint;
}

const ALGORITHM = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const SHORTEST_DIGEST = 16;
const LONGEST_DIGEST = 64;

export const fingerprint: Fingerprints = Object.freeze({
  bytes(data: Uint8Array) {
    if (!(data instanceof Uint8Array)) throw invalid("data", "a Uint8Array", data);
    return { algorithm: "bytes-1", digest: digestOf("bytes", [data]) };
  },
  json(text: string | Uint8Array) {
    return { algorithm: "json-1", digest: digestOf("json", [canonicalJson(text)]) };
  },
  fields(fields: Readonly<Record<string, DeclaredField>>) {
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
      throw invalid("fields", "an object", fields);
    }
    const names = Object.keys(fields).sort();
    const parts = names.flatMap((name) => [
      checkText(name, "fields"),
      ...fieldParts(fields[name], `fields.${name}`),
    ]);
    return { algorithm: "fields-1", digest: digestOf("fields", parts) };
  },
  given(algorithm: string, digest: Uint8Array) {
    return checkFingerprint({ algorithm, digest }, "fingerprint");
  },
});

/** @throws `INVALID_ARGUMENT`. The digest is a copy (DATA-03). */
export function checkFingerprint(given: unknown, path: string): Fingerprint {
  if (given === undefined) throw invalid(path, "{ algorithm, digest }", given);
  const { algorithm, digest } = checkOptions(given, ["algorithm", "digest"], path);
  if (typeof algorithm !== "string" || !ALGORITHM.test(algorithm)) {
    throw invalid(`${path}.algorithm`, "at most 64 of a-z, 0-9, '.', '_' and '-'", algorithm);
  }
  if (!(digest instanceof Uint8Array) || digest.length < SHORTEST_DIGEST || digest.length > LONGEST_DIGEST) {
    throw invalid(`${path}.digest`, `${SHORTEST_DIGEST} to ${LONGEST_DIGEST} bytes`, digest);
  }
  return { algorithm, digest: new Uint8Array(digest) };
}

/** How many parts follow says what they are: a text cannot pass for two, nor for a file. */
function fieldParts(field: DeclaredField | undefined, path: string): readonly Part[] {
  if (typeof field === "string") return ["1", checkText(field, path)];
  if (Array.isArray(field)) {
    return [String(field.length), ...field.map((value, index) => checkText(value, `${path}[${index}]`))];
  }
  const { filename, type } = checkOptions(field ?? null, ["filename", "type"], path);
  const declared = (value: unknown, member: string): string | null =>
    value === null ? null : checkText(value, `${path}.${member}`);
  return ["file", declared(filename, "filename"), declared(type, "type")];
}

function checkText(value: unknown, path: string): string {
  if (typeof value !== "string") throw invalid(path, "a string", value);
  if (!value.isWellFormed()) throw invalid(path, "a string without lone surrogates", value);
  return value;
}

function canonicalJson(given: string | Uint8Array): string {
  const text = typeof given === "string" ? given : decoded(given);
  try {
    const value: unknown = JSON.parse(text);
    refuseAmbiguity(text);
    const canonical = canonicalize(value);
    if (canonical === undefined) throw new NotCanonical("has no canonical form");
    return canonical;
  } catch (error) {
    // The parser's messages quote the text, which may hold secrets.
    const reason = error instanceof NotCanonical ? error.message : "is not JSON, or nests too deeply";
    throw new DovecoteError("INVALID_ARGUMENT", `the JSON text ${reason}`, { path: "text" });
  }
}

/** What `JSON.parse` swallows: the first of two members with one name, and the digits that a double has no room for. */
function refuseAmbiguity(text: string): void {
  const open: Set<string>[] = [];
  jsonc.visit(text, {
    onObjectBegin: () => void open.push(new Set()),
    onObjectEnd: () => void open.pop(),
    onObjectProperty(name) {
      const members = open.at(-1);
      if (members?.has(name)) throw new NotCanonical("has a member twice in one object");
      members?.add(name);
    },
    onLiteralValue(value, offset, length) {
      if (typeof value === "number" && !isSafeNumber(text.slice(offset, offset + length))) {
        throw new NotCanonical("has a number that a double cannot hold exactly");
      }
    },
  });
}

function decoded(bytes: unknown): string {
  if (!(bytes instanceof Uint8Array)) throw invalid("text", "a string or a Uint8Array", bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw invalid("text", "UTF-8", "other bytes");
  }
}

class NotCanonical extends Error {}
