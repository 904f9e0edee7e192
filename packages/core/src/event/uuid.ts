import { randomBytes } from "node:crypto";
import { DovecoteError } from "../errors.ts";

const MAX_MS = 2 ** 48 - 1;

/**
 * A UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds since 1970, 74 random bits. Ids of different milliseconds
 * sort by time, those of one millisecond in any order.
 *
 * @param now milliseconds since 1970, default: the host's clock. Clamped to what 48 bits hold: an absurd clock costs
 *   the order, the random bits keep the id unique.
 * @throws DovecoteError `ENTROPY_UNAVAILABLE`, retryable: there is no fall-back to a weaker source.
 */
export function uuidv7(now: number = Date.now()): string {
  const bytes = entropy();
  const view = new DataView(bytes.buffer);
  const ms = Math.min(Math.max(Math.trunc(now) || 0, 0), MAX_MS);
  view.setUint32(0, Math.floor(ms / 2 ** 16));
  view.setUint16(4, ms % 2 ** 16);
  view.setUint8(6, (view.getUint8(6) & 0x0f) | 0x70);
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function entropy(): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(randomBytes(16));
  } catch (cause) {
    throw new DovecoteError("ENTROPY_UNAVAILABLE", "no random bytes for an event id", { cause });
  }
}
