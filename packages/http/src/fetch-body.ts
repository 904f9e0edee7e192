/** The body of a web-standard Request. */
import { concatenated, type IncomingBody } from "./incoming-body.ts";
import { UploadAborted } from "./refused.ts";

export class FetchBody implements IncomingBody {
  aborted = false;
  /** Somebody was given it as a stream, which cannot be read twice. */
  streamed = false;
  readonly #request: Request;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** What was peeked at, and nobody has read yet. */
  readonly #kept: Uint8Array[] = [];
  readonly #watchers: ((piece: Uint8Array) => void)[] = [];
  #ended = false;

  constructor(request: Request) {
    this.#request = request;
    this.#reader = request.body?.getReader();
  }

  async peek(enough: (piece: Uint8Array) => boolean | Promise<boolean>): Promise<void> {
    for (;;) {
      const piece = await this.#read();
      if (piece === undefined) return;
      this.#kept.push(piece);
      if (await enough(piece)) return;
    }
  }

  watch(see: (piece: Uint8Array) => void): void {
    this.#watchers.push(see);
  }

  async drain(): Promise<void> {
    while ((await this.#next()) !== undefined);
  }

  /** The request with its body from the beginning: again and again if all of it was peeked at, otherwise once. */
  request(): Request {
    if (this.#reader === undefined) return this.#request.clone();
    if (this.#ended && this.#watchers.length === 0) {
      return new Request(this.#request, { body: concatenated(this.#kept) });
    }
    this.streamed = true;
    const body = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const piece = await this.#next();
          if (piece === undefined) controller.close();
          else controller.enqueue(piece);
        },
      },
      { highWaterMark: 0 },
    );
    return new Request(this.#request, { body, duplex: "half" } as RequestInit);
  }

  async #next(): Promise<Uint8Array | undefined> {
    const piece = this.#kept.shift() ?? (await this.#read());
    if (piece !== undefined) for (const see of this.#watchers) see(piece);
    return piece;
  }

  async #read(): Promise<Uint8Array | undefined> {
    if (this.#ended || this.#reader === undefined) return undefined;
    try {
      const { done, value } = await this.#reader.read();
      this.#ended = done;
      return value;
    } catch (error) {
      this.aborted = true;
      throw new UploadAborted(error);
    }
  }
}
