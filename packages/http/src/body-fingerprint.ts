/** What a route compares of a body, by its mode; and what can only be known once the handler has read it. */
import { type DovecoteError, type Fingerprint, fingerprint, invalid, isDovecoteError } from "@dovecote/core";
import { DigestCheck, declaredDigest } from "./content-digest.ts";
import { type IncomingBody, readUpTo, tooLarge } from "./incoming-body.ts";
import { DeclaredParts, isMultipart } from "./multipart.ts";
import type { Plan } from "./options.ts";
import { Refused } from "./refused.ts";
import { autoFingerprint, type BodyMode } from "./request-fingerprint.ts";

export interface BodyHeaders {
  /** The value of Content-Type, if there is one. */
  readonly contentType: string | undefined;
  /** The value of Content-Encoding, if there is one. */
  readonly contentEncoding: string | undefined;
  /** The value of Content-Digest, if there is one. */
  readonly contentDigest: string | undefined;
}

export interface ReadBody {
  readonly fingerprint: Fingerprint;
  /** All of it, where it was read to be compared. */
  readonly bytes: Uint8Array | undefined;
  /** Before anything is kept: the rest of the body has to be what was said of it. @throws Refused, UploadAborted. */
  readonly verify: (() => Promise<void>) | undefined;
}

/** @throws Refused, UploadAborted; what a function of the application's throws. */
export async function fingerprintBody<Request>(
  plan: Plan<Request>,
  request: Request,
  body: IncomingBody,
  headers: BodyHeaders,
): Promise<ReadBody> {
  switch (plan.body.kind) {
    case "digest":
      return byDigest(body, headers);
    case "fields":
      return byFields(plan.body.names, plan.maxBodyBytes, body, headers);
    default: {
      const bytes = await verifiedWhole(plan, body, headers);
      return { fingerprint: await ofBytes(plan, request, bytes, headers), bytes, verify: undefined };
    }
  }
}

/**
 * A body that another part of the application has read already.
 *
 * @throws Refused; `INVALID_ARGUMENT` where what was made of it does not tell two bodies apart.
 */
export async function fingerprintParsed<Request>(
  plan: Plan<Request>,
  request: Request,
  parsed: unknown,
  { contentType, contentDigest }: BodyHeaders,
): Promise<Fingerprint> {
  const raw = parsed instanceof Uint8Array || typeof parsed === "string";
  const bytes = parsed instanceof Uint8Array ? parsed : new TextEncoder().encode(asText(parsed));
  if (bytes.length > plan.maxBodyBytes) throw tooLarge(plan.maxBodyBytes);
  const kind = plan.custom === undefined ? plan.body.kind : "custom";
  if (kind === "digest" || kind === "fields" || (!raw && kind === "bytes")) throw parsedBefore(kind);
  // Its files may be anywhere but in what was made of it.
  if (!raw && kind === "auto" && isMultipart(contentType)) throw parsedBefore("auto");
  const declared = declaredDigest(contentDigest);
  if (declared !== undefined && parsed instanceof Uint8Array) {
    const check = new DigestCheck(declared);
    check.update(parsed);
    check.verify();
  }
  if (plan.custom !== undefined) return plan.custom(request, bytes);
  return raw ? fingerprint.bytes(bytes) : canonical(bytes);
}

function parsedBefore(kind: BodyMode["kind"]): DovecoteError {
  return invalid(
    "fingerprint",
    '"auto" with JSON, or a function of yours, where the body is parsed before the gate: mount the parser after it',
    kind,
  );
}

/** All of it, and as its Content-Digest says, if it has one. @throws Refused, UploadAborted. */
async function verifiedWhole(
  { maxBodyBytes }: Pick<Plan<never>, "maxBodyBytes">,
  body: IncomingBody,
  { contentDigest }: Pick<BodyHeaders, "contentDigest">,
): Promise<Uint8Array> {
  const declared = declaredDigest(contentDigest);
  const bytes = await readUpTo(body, maxBodyBytes);
  if (bytes === undefined) throw tooLarge(maxBodyBytes);
  if (declared !== undefined) {
    const check = new DigestCheck(declared);
    check.update(bytes);
    check.verify();
  }
  return bytes;
}

async function ofBytes<Request>(
  plan: Plan<Request>,
  request: Request,
  bytes: Uint8Array,
  headers: BodyHeaders,
): Promise<Fingerprint> {
  if (plan.custom !== undefined) return plan.custom(request, bytes);
  if (plan.body.kind === "bytes") return fingerprint.bytes(bytes);
  return refusingAmbiguity(() => autoFingerprint(bytes, headers));
}

function byDigest(body: IncomingBody, { contentDigest }: BodyHeaders): ReadBody {
  const declared = declaredDigest(contentDigest);
  if (declared === undefined) {
    throw new Refused({ code: "digest-missing", detail: "Send Content-Digest with sha-512 or sha-256." });
  }
  const verify = onceOnly(watchDigest(body, declared));
  return { fingerprint: fingerprint.given(declared.algorithm, declared.digest), bytes: undefined, verify };
}

function watchDigest(body: IncomingBody, declared: NonNullable<ReturnType<typeof declaredDigest>>) {
  const check = new DigestCheck(declared);
  body.watch((piece) => check.update(piece));
  return async (): Promise<void> => {
    await body.drain();
    check.verify();
  };
}

/** Twice: up to the first file, to be compared, and then beside the handler, to see what comes after it. */
async function byFields(
  names: readonly string[],
  maxBytes: number,
  body: IncomingBody,
  { contentType, contentDigest }: BodyHeaders,
): Promise<ReadBody> {
  const declared = declaredDigest(contentDigest);
  const first = new DeclaredParts(contentType, names, maxBytes);
  let size = 0;
  await body.peek(async (piece) => {
    size += piece.length;
    await first.write(piece);
    return first.decided || size > maxBytes;
  });
  if (!first.decided) {
    if (size > maxBytes) throw tooLarge(maxBytes);
    await first.end();
  }
  first.check();
  const all = new DeclaredParts(contentType, names, maxBytes);
  let seen = Promise.resolve();
  body.watch((piece) => {
    seen = seen.then(() => all.write(piece));
  });
  const verifyDigest = declared === undefined ? undefined : watchDigest(body, declared);
  const verify = async (): Promise<void> => {
    await body.drain();
    await seen;
    await all.end();
    await verifyDigest?.();
  };
  return { fingerprint: first.fingerprint(), bytes: undefined, verify: onceOnly(verify) };
}

/** A stream ends once, and whoever asks again is told the same: a commit asks, and the end of its run. */
function onceOnly(verify: () => Promise<void>): () => Promise<void> {
  let verified: Promise<void> | undefined;
  return () => {
    verified ??= verify();
    return verified;
  };
}

function canonical(bytes: Uint8Array): Fingerprint {
  return refusingAmbiguity(() => fingerprint.json(bytes));
}

function refusingAmbiguity(make: () => Fingerprint): Fingerprint {
  try {
    return make();
  } catch (error) {
    if (!isDovecoteError(error, "INVALID_ARGUMENT")) throw error;
    throw new Refused({ code: "body-not-canonical", detail: error.message });
  }
}

function asText(parsed: unknown): string {
  return typeof parsed === "string" ? parsed : (JSON.stringify(parsed) ?? "");
}
