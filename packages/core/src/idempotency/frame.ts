/** Digests of several parts at once: each part is preceded by its length, so that no separator can be forged (KEY-05). */
import { createHash, createHmac } from "node:crypto";

/** Changes with what is hashed and how, so that digests of two versions never meet. */
const VERSION = 1;

/** A part that is absent is another one than an empty part. */
export type Part = string | Uint8Array | null;

/** 32 bytes: SHA-256, or HMAC-SHA-256 where there is a secret. `purpose` keeps digests of different things apart. */
export function digestOf(purpose: string, parts: readonly Part[], secret?: Uint8Array): Uint8Array {
  const hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret);
  hash.update(Uint8Array.of(VERSION));
  for (const part of [purpose, ...parts]) {
    const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
    const length = new DataView(new ArrayBuffer(4));
    length.setUint32(0, bytes === null ? ABSENT : bytes.length);
    hash.update(new Uint8Array(length.buffer));
    if (bytes !== null) hash.update(bytes);
  }
  return new Uint8Array(hash.digest());
}

const ABSENT = 0xff_ff_ff_ff;
