/** The body of a node:http request. */
import type { IncomingMessage } from "node:http";
import { concatenated, type IncomingBody } from "./incoming-body.ts";
import { UploadAborted } from "./refused.ts";

export class NodeBody implements IncomingBody {
  readonly #request: IncomingMessage;
  /** Kept, since a pipeline that fails takes it from its request, and leaves it open. */
  readonly #socket: IncomingMessage["socket"];
  readonly #watchers: ((piece: Uint8Array) => void)[] = [];
  #putBack = false;

  constructor(request: IncomingMessage) {
    this.#request = request;
    this.#socket = request.socket;
  }

  get aborted(): boolean {
    return this.#socket.destroyed && !this.#request.complete;
  }

  async peek(enough: (piece: Uint8Array) => boolean | Promise<boolean>): Promise<void> {
    const pieces: Uint8Array[] = [];
    // The parser says that a message is over after it has said that there is one.
    await Promise.resolve();
    while (!this.#over) {
      const piece = await this.#arrived(pieces);
      if (piece === undefined) return;
      const stop = await enough(piece);
      // Where all has arrived, it is back already.
      if (this.#over) return;
      if (stop) break;
    }
    if (pieces.length > 0) this.#request.unshift(concatenated(pieces));
  }

  /** Nothing will arrive, and nothing is there. */
  get #over(): boolean {
    const { complete, readableLength } = this.#request;
    return this.#putBack || ((complete || hasNone(this.#request)) && readableLength === 0);
  }

  /** What has arrived, when something has; `undefined` if nothing more will. */
  #arrived(pieces: Uint8Array[]): Promise<Uint8Array | undefined> {
    const request = this.#request;
    return new Promise((resolve, reject) => {
      const settle = () => {
        request.off("readable", read).off("error", gone).off("close", gone);
      };
      const gone = (error?: unknown) => {
        settle();
        reject(new UploadAborted(error));
      };
      const read = () => {
        // A read of nothing would end the stream before its handler listens.
        const piece = request.readableLength === 0 ? null : (request.read() as Buffer | null);
        if (piece !== null) pieces.push(piece);
        else if (!request.complete) return;
        if ((request.complete || isAll(request, pieces)) && pieces.length > 0) {
          // In this very tick: in the next one the stream would have ended, and take nothing back.
          request.unshift(concatenated(pieces));
          this.#putBack = true;
        }
        settle();
        resolve(piece ?? undefined);
      };
      if (request.destroyed) gone(request.errored);
      else request.on("readable", read).on("error", gone).on("close", gone);
    });
  }

  /** Every read of a stream emits what it reads, however it is read. */
  watch(see: (piece: Uint8Array) => void): void {
    this.#watchers.push(see);
    if (this.#watchers.length > 1) return;
    const request = this.#request;
    const { emit } = request;
    request.emit = (event: string | symbol, ...args: unknown[]): boolean => {
      if (event === "data") {
        const [data] = args as [Buffer | string];
        const piece = typeof data === "string" ? Buffer.from(data, request.readableEncoding ?? "utf8") : data;
        for (const watcher of this.#watchers) watcher(piece);
      }
      return emit.call(request, event, ...args);
    };
  }

  drain(): Promise<void> {
    const request = this.#request;
    return new Promise((resolve, reject) => {
      const failure = (): Error =>
        this.aborted
          ? new UploadAborted(request.errored)
          : new Error("the handler destroyed its request before all of it was seen");
      if (request.readableEnded) return resolve();
      if (request.destroyed) return reject(failure());
      const settle = (end: () => void) => () => {
        request.off("end", ended).off("error", gone).off("close", gone);
        end();
      };
      const ended = settle(resolve);
      const gone = settle(() => reject(failure()));
      request.on("end", ended).on("error", gone).on("close", gone);
      request.unpipe();
      request.resume();
    });
  }
}

/** RFC 9112, section 6.3. */
function hasNone({ headers, httpVersionMajor }: IncomingMessage): boolean {
  const { "content-length": length = "0", "transfer-encoding": coding } = headers;
  return httpVersionMajor === 1 && length === "0" && coding === undefined;
}

/** An injected request that is whole does not say so in another way. */
function isAll({ headers }: IncomingMessage, pieces: readonly Uint8Array[]): boolean {
  const size = pieces.reduce((sum, { length }) => sum + length, 0);
  return headers["content-length"] !== undefined && size >= Number(headers["content-length"]);
}
