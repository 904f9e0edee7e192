/** Answers as applications give and get them, and as drivers keep them. */
import { checkOptions, checkWhole, invalid, orDefault } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import { utf8Bytes } from "../event/text.ts";
import type { Answer, KeptAnswer } from "./driver.ts";

/** An answer to be recorded. Its header list and its bytes come back as they are (KEY-02, KEY-10). */
export interface KeyResponse {
  /** 200 to 599. */
  readonly status: number;
  /** In order; a name may be there more than once. Default none. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** A text is kept as its UTF-8 bytes. Default no bytes. */
  readonly body?: Uint8Array | string;
}

/** An answer that cannot be given again: a stream, for example. A retry is told so, and is not run (KEY-02). */
export interface UnreplayableResponse {
  /** For people, at most 255 bytes. */
  readonly unreplayable: string;
  readonly status: number;
}

/** A recorded answer, as it was given. */
export interface RecordedResponse {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The answer of a run, in the shape of a replay. */
export interface RunAnswer extends RecordedResponse {
  /** As the handler said. There is no body then, and a retry is told so instead. */
  readonly unreplayable?: string;
}

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible characters, spaces and tabs between them, and what HTTP calls obsolete text. */
const VALUE = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const REASON_BYTES = 255;

/**
 * Checks an answer, and copies it (DATA-03). One that is larger than `maxBytes`, headers and body together, is kept as the
 * fact that there was one.
 *
 * @throws `INVALID_ARGUMENT`.
 */
export function toAnswer(given: unknown, maxBytes: number): Answer {
  const { status, headers, body, unreplayable } = toRunAnswer(given);
  if (unreplayable !== undefined) return { status, reason: unreplayable };
  const size = body.length + headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (size > maxBytes) return { status, reason: `too large: ${size} bytes of at most ${maxBytes}` };
  return { status, headers: JSON.stringify(headers), body };
}

/** The same as every run answers it. @throws `INVALID_ARGUMENT`. */
export function toRunAnswer(given: unknown): RunAnswer {
  if (given === undefined) throw invalid("response", "{ status, headers, body }", given);
  const members = ["status", "headers", "body", "unreplayable"];
  const { status: code, headers, body, unreplayable } = checkOptions(given, members, "response");
  const status = checkWhole(code, BOUNDS.status, "response.status");
  if (unreplayable === undefined) {
    return {
      status,
      headers: checkHeaders(orDefault(headers, [])),
      body: checkBody(orDefault(body, new Uint8Array())),
    };
  }
  if (headers !== undefined || body !== undefined) {
    throw invalid("response", "without headers and body if it is unreplayable", given);
  }
  return { status, headers: [], body: new Uint8Array(), unreplayable: checkReason(unreplayable) };
}

export function toRecorded({ status, headers, body }: KeptAnswer): RecordedResponse {
  return { status, headers: JSON.parse(headers) as RecordedResponse["headers"], body: new Uint8Array(body) };
}

function checkReason(value: unknown): string {
  const path = "response.unreplayable";
  if (typeof value !== "string" || value === "" || !value.isWellFormed() || value.includes("\0")) {
    throw invalid(path, "a non-empty text", value);
  }
  if (utf8Bytes(value) > REASON_BYTES) throw invalid(path, `at most ${REASON_BYTES} bytes long`, value);
  return value;
}

function checkHeaders(value: unknown): readonly (readonly [string, string])[] {
  if (!Array.isArray(value))
    throw invalid("response.headers", "a list of pairs of a name and a value", value);
  return value.map((pair: unknown, index) => {
    const path = `response.headers[${index}]`;
    if (!Array.isArray(pair) || pair.length !== 2) throw invalid(path, "a pair of a name and a value", pair);
    const [name, text] = pair as unknown[];
    if (typeof name !== "string" || !NAME.test(name))
      throw invalid(`${path}[0]`, "the name of a header", name);
    // A value may be a secret: only its kind is shown.
    if (typeof text !== "string" || !VALUE.test(text)) {
      throw invalid(`${path}[1]`, "the value of a header, without line breaks", `a ${typeof text}`);
    }
    return [name, text] as const;
  });
}

function checkBody(value: unknown): Uint8Array<ArrayBuffer> {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw invalid("response.body", "a string without lone surrogates", value);
    return new TextEncoder().encode(value);
  }
  if (!(value instanceof Uint8Array)) throw invalid("response.body", "a Uint8Array or a string", value);
  return new Uint8Array(value);
}
