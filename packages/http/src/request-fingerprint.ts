/** The fingerprint of a request: its parameters, what its body is, and its body's own fingerprint (KEY-04). */
import { createHash } from "node:crypto";
import { type Fingerprint, fingerprint } from "@dovecote/core";
import type { Target } from "./target.ts";

export interface RequestParts {
  readonly parameters: Target["parameters"];
  /** The value of Content-Type, if there is one. */
  readonly contentType: string | undefined;
  /** The value of Content-Encoding, if there is one. */
  readonly contentEncoding: string | undefined;
}

/**
 * How a route compares the bodies of requests. Its name is part of the algorithm's id, so that after a deploy which changes
 * the mode nothing is taken for another request.
 */
export type BodyMode =
  | { readonly kind: "auto" | "bytes" | "digest" }
  | { readonly kind: "fields"; readonly names: readonly string[] }
  | { readonly kind: "custom"; readonly algorithm: string };

/**
 * One digest over everything that makes a request another one. Every part is framed by its length, and the parameters are
 * a list of their own: `?a=&a=b` and `?a=b` differ, and nothing in a body can pass for a parameter.
 *
 * @param body the body's fingerprint, by whatever algorithm suits it.
 */
export function requestFingerprint(
  { parameters, contentType, contentEncoding }: RequestParts,
  mode: BodyMode,
  body: Fingerprint,
): Fingerprint {
  const { digest } = fingerprint.fields({
    parameters: parameters.flat().map((text) => text.toWellFormed()),
    type: mediaType(contentType),
    encoding: contentEncoding?.trim().toLowerCase() ?? "",
    algorithm: body.algorithm,
    digest: Buffer.from(body.digest).toString("hex"),
  });
  return fingerprint.given(algorithmOf(mode, body.algorithm), digest);
}

/**
 * Of a body that is at hand: a JSON one by its canonical form, any other by its bytes.
 *
 * @throws `INVALID_ARGUMENT` for JSON that is ambiguous, or none: whoever is given it may read it differently.
 */
export function autoFingerprint(
  body: Uint8Array,
  { contentType, contentEncoding }: Pick<RequestParts, "contentType" | "contentEncoding">,
): Fingerprint {
  const plain = contentEncoding === undefined || contentEncoding.trim().toLowerCase() === "identity";
  return plain && body.length > 0 && isJson(mediaType(contentType))
    ? fingerprint.json(body)
    : fingerprint.bytes(body);
}

/** `type/subtype` without parameters: the boundary of a multipart body is a new one with every attempt. */
function mediaType(contentType: string | undefined): string {
  return (contentType ?? "").replace(/;.*$/s, "").trim().toLowerCase();
}

/** Also by its suffix (RFC 6839, section 3.1). */
function isJson(type: string): boolean {
  return type === "application/json" || /^[^/]+\/[^/]+\+json$/.test(type);
}

function algorithmOf(mode: BodyMode, body: string): string {
  switch (mode.kind) {
    case "digest":
      // One body may be declared by either: they are never compared.
      return `http-1-digest-${body}`;
    case "fields":
      return `http-1-fields-${shortDigest([...mode.names].sort())}`;
    case "custom":
      return `http-1-custom-${shortDigest([mode.algorithm])}`;
    default:
      return `http-1-${mode.kind}`;
  }
}

function shortDigest(texts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
}
