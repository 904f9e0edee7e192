/** The body of a request, which the gate reads before the handler does, and the handler gets all the same. */
import { Refused } from "./refused.ts";

export interface IncomingBody {
  /**
   * Reads from the beginning, piece by piece, until `enough` says so or the body is over, and puts everything back. Once.
   *
   * @throws UploadAborted.
   */
  peek(enough: (piece: Uint8Array) => boolean | Promise<boolean>): Promise<void>;
  /** Shows `see` every piece, from the beginning, as it is read by whomever. Before the handler. */
  watch(see: (piece: Uint8Array) => void): void;
  /** Reads what the handler has left. @throws UploadAborted. */
  drain(): Promise<void>;
  /** The client went away before its body was whole. */
  readonly aborted: boolean;
}

/** All of it; `undefined` if it is longer. @throws UploadAborted. */
export async function readUpTo(body: IncomingBody, maxBytes: number): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  await body.peek((piece) => {
    size += piece.length;
    pieces.push(piece);
    return size > maxBytes;
  });
  return size > maxBytes ? undefined : concatenated(pieces);
}

export function tooLarge(maxBytes: number): Refused {
  return new Refused({ code: "body-too-large", detail: `At most ${maxBytes} bytes are read to compare it.` });
}

/** One of its own, and no view of a buffer that is somebody else's. */
export function concatenated(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const piece of pieces) {
    whole.set(piece, offset);
    offset += piece.length;
  }
  return whole;
}
