/** The answer of a fetch handler, held until it may be sent. */
import type { KeyResponse, RunResponse } from "@dovecote/core";
import { hasNoBody, isEventStream, toAnswer, tooLong } from "./answer.ts";
import { concatenated } from "./incoming-body.ts";
import type { Answer } from "./problem.ts";
import type { HeaderList } from "./recorded-headers.ts";

export class FetchAnswer {
  readonly #maxBytes: number;
  #response: Response | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** What is to be recorded of it: the rest of a stream is left for later. */
  hold(answer: Response | KeyResponse): RunResponse | Promise<RunResponse> {
    if (answer instanceof Response) return this.#held(answer);
    const parts = toAnswer(answer);
    this.#response = toResponse(parts);
    return parts.body.length > this.#maxBytes
      ? { status: parts.status, unreplayable: tooLong(this.#maxBytes) }
      : parts;
  }

  /** As it is. */
  pass(answer: Response | KeyResponse): void {
    this.#response = answer instanceof Response ? answer : toResponse(toAnswer(answer));
  }

  /** Nobody will be sent it: what makes its body can stop. */
  async cancel(): Promise<void> {
    const response = this.#response;
    this.#response = undefined;
    await response?.body?.cancel().catch(() => {});
  }

  response(additions: HeaderList): Response {
    const response = this.#response as Response;
    if (additions.length === 0) return response;
    // The headers of one that the handler made may be immutable, as those of `fetch` are.
    const list = new Headers(response.headers);
    for (const [name, value] of additions) list.set(name, value);
    const { status, statusText, body } = response;
    return new Response(body, { status, statusText, headers: list });
  }

  async #held(response: Response): Promise<RunResponse> {
    const { status, body } = response;
    const headers = [...response.headers];
    if (body === null) {
      this.#response = toResponse({ status, headers, body: new Uint8Array() });
      return { status, headers };
    }
    const reader = body.getReader();
    const pieces: Uint8Array[] = [];
    const streaming = (unreplayable: string): RunResponse => {
      this.#response = new Response(continued(pieces, reader), response);
      return { status, unreplayable };
    };
    if (isEventStream(response.headers.get("content-type"))) return streaming("a stream of events");
    for (let size = 0; size <= this.#maxBytes; size += pieces.at(-1)?.length ?? 0) {
      const { done, value } = await reader.read();
      if (done) {
        const whole = concatenated(pieces);
        this.#response = toResponse({ status, headers, body: whole });
        return { status, headers, body: whole };
      }
      pieces.push(value);
    }
    return streaming(tooLong(this.#maxBytes));
  }
}

/** What was read, and then the rest as it comes. */
function continued(
  pieces: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const kept = pieces.shift();
        if (kept !== undefined) return controller.enqueue(kept);
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

export function toResponse({ status, headers, body }: Answer): Response {
  const list = new Headers();
  // One by one: an object would merge what is there more than once.
  for (const [name, value] of headers) list.append(name, value);
  return new Response(hasNoBody(status) ? null : body, { status, headers: list });
}
