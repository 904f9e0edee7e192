/** The Content-Digest header (RFC 9530): what a client says the bytes of its body are. */
import { createHash, type Hash } from "node:crypto";
import { parseDictionary } from "structured-headers";
import { Refused } from "./refused.ts";

/** Those of RFC 9530 that are neither insecure nor deprecated, strongest first, as Node names them. */
const ALGORITHMS = [
  ["sha-512", "sha512", 64],
  ["sha-256", "sha256", 32],
] as const;

export interface DeclaredDigest {
  readonly algorithm: (typeof ALGORITHMS)[number][0];
  readonly digest: Uint8Array;
}

/**
 * The strongest digest that is known here; `undefined` if there is none.
 *
 * @throws Refused if the header cannot be read: a client that says what it sends wants to be checked.
 */
export function declaredDigest(header: string | undefined): DeclaredDigest | undefined {
  if (header === undefined) return undefined;
  const declared = parsed(header);
  for (const [algorithm, , length] of ALGORITHMS) {
    const value = declared.get(algorithm)?.[0];
    if (value === undefined) continue;
    if (!(value instanceof ArrayBuffer) || value.byteLength !== length) throw unreadable();
    return { algorithm, digest: new Uint8Array(value) };
  }
  return undefined;
}

function parsed(header: string): ReturnType<typeof parseDictionary> {
  try {
    return parseDictionary(header);
  } catch {
    throw unreadable();
  }
}

function unreadable(): Refused {
  return new Refused({ code: "digest-missing", detail: "Content-Digest cannot be read." });
}

/** Compares what passes with what was declared. */
export class DigestCheck {
  readonly #declared: DeclaredDigest;
  readonly #hash: Hash;

  constructor(declared: DeclaredDigest) {
    this.#declared = declared;
    this.#hash = createHash(declared.algorithm.replace("-", ""));
  }

  update(piece: Uint8Array): void {
    this.#hash.update(piece);
  }

  /** @throws Refused. */
  verify(): void {
    if (this.#hash.digest().equals(this.#declared.digest)) return;
    throw new Refused({
      code: "digest-mismatch",
      detail: `The ${this.#declared.algorithm} of the body is another one: nothing was kept.`,
    });
  }
}
