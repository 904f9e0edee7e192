/** What is common to events that come in from outside: how large they may be, and how they are checked. */
import { checkOptions, checkWhole, orDefault } from "../arguments.ts";
import { BOUNDS, type Range } from "../bounds.ts";
import { DovecoteError } from "../errors.ts";
import { isUint8Array } from "./builtins.ts";
import { decodeEvent } from "./decode.ts";
import type { OutboxEvent } from "./event.ts";
import { invalidEvent, kindOf } from "./refusal.ts";
import { utf8Bytes } from "./text.ts";
import { normalizeEvent } from "./validate.ts";

/** How large an event from outside may be. Checked before anything is parsed. */
export interface InboundCaps {
  /** Bytes of the body. 1 to 64 MiB, default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** Number of headers, of any name. 1 to 10,000, default 100. */
  readonly maxHeaders?: number;
  /** Bytes of all names and values of headers. 1 to 1 MiB, default 64 KiB. */
  readonly maxHeaderBytes?: number;
}

const RANGES = {
  maxBodyBytes: BOUNDS.maxEventBytes,
  maxHeaders: { min: 1, max: 10_000 },
  maxHeaderBytes: { min: 1, max: 1024 * 1024 },
} satisfies Record<keyof InboundCaps, Range>;
const DEFAULTS = {
  maxBodyBytes: 1024 * 1024,
  maxHeaders: 100,
  maxHeaderBytes: 64 * 1024,
} satisfies Record<keyof InboundCaps, number>;

/** @throws `INVALID_ARGUMENT` */
export function checkCaps(given: unknown): Required<InboundCaps> {
  const caps = checkOptions(given, Object.keys(RANGES), "caps");
  const whole = (name: keyof InboundCaps): number =>
    checkWhole(orDefault(caps[name], DEFAULTS[name]), RANGES[name], `caps.${name}`);
  return {
    maxBodyBytes: whole("maxBodyBytes"),
    maxHeaders: whole("maxHeaders"),
    maxHeaderBytes: whole("maxHeaderBytes"),
  };
}

/** @throws `INVALID_ARGUMENT` if it is no body, `EVENT_TOO_LARGE`. */
export function checkBody(body: unknown, { maxBodyBytes }: Required<InboundCaps>): void {
  if (typeof body !== "string" && !isUint8Array(body)) {
    const message = `body must be a Uint8Array or a string, got ${kindOf(body)}`;
    throw new DovecoteError("INVALID_ARGUMENT", message, { path: "body" });
  }
  const bytes = typeof body === "string" ? utf8Bytes(body) : body.length;
  if (bytes > maxBodyBytes) throw tooLarge("body", `is ${bytes} bytes, the limit is ${maxBodyBytes} bytes`);
}

export function tooLarge(path: string, reason: string): DovecoteError {
  return new DovecoteError("EVENT_TOO_LARGE", `${path} ${reason}`, { path });
}

/**
 * The event of attributes from outside, checked as one that is enqueued. Nothing is filled in: `specversion` and `id` have
 * to be there.
 *
 * @throws `INVALID_EVENT`
 */
export function inboundEvent(
  attributes: ReadonlyMap<string, unknown>,
  extensions: Readonly<Record<string, unknown>>,
  data: unknown,
): OutboxEvent {
  for (const name of ["specversion", "id"]) {
    if (!attributes.has(name)) throw invalidEvent(`event.${name}`, "is required");
  }
  // The stream is outside of the CloudEvent; nothing that is kept depends on it.
  const given = { stream: "inbound", ...Object.fromEntries(attributes), extensions, data };
  return decodeEvent(normalizeEvent(given, { maxEventBytes: Number.POSITIVE_INFINITY }));
}
