/**
 * The answer of a node:http handler, held until it may be sent. The response is patched in place, so that whatever writes to
 * it (a framework, a pipeline, a middleware) goes through here, and nothing that is written leaves.
 */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { RunResponse } from "@dovecote/core";
import { hasNoBody, isEventStream, tooLong } from "./answer.ts";
import { concatenated } from "./incoming-body.ts";
import type { Answer } from "./problem.ts";
import type { HeaderList } from "./recorded-headers.ts";

type Callback = (error?: Error | null) => void;
type HeaderValue = NonNullable<OutgoingHttpHeader>;

interface Head {
  readonly status: number;
  readonly message: string;
  readonly headers: readonly (readonly [name: string, value: HeaderValue])[];
}

/** Those of a response that are replaced while its answer is held. */
const PATCHED = ["writeHead", "write", "end", "destroy", "flushHeaders", "emit"] as const;
const ASKED = ["headersSent", "writableEnded", "finished"] as const;
/** What says that the client is gone, in the words of `stream.finished`, `stream.pipeline` and the on-finished package. */
const GONE = ["destroyed", "_closed", "socket"] as const;

export class Capture {
  /** The answer as it is to be recorded; `undefined` as long as the handler has not ended it. */
  ended: RunResponse | undefined;
  readonly #response: ServerResponse;
  readonly #maxBytes: number;
  readonly #before: Head;
  readonly #pieces: Buffer[] = [];
  readonly #callbacks: Callback[] = [];
  readonly #held: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #own = new Map<string, PropertyDescriptor | undefined>();
  /** What it is in truth, while it looks as if its client were there. */
  readonly #real = new Map<(typeof GONE)[number], unknown>();
  #size = 0;
  #head: Head | undefined;
  #over = false;
  #sent = false;
  #needsDrain = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(response: ServerResponse, maxBytes: number) {
    this.#response = response;
    this.#maxBytes = maxBytes;
    this.#before = headOf(response);
    this.#patch();
  }

  /** The handler destroyed its response, or failed in the middle of it: nothing more can be made of it. */
  get broken(): boolean {
    return this.#failure !== undefined;
  }

  /** Resolves when the answer is whole, or is known not to be one that can be recorded. @throws what the handler destroyed it with. */
  async whole(): Promise<RunResponse> {
    if (this.ended === undefined && this.#failure === undefined) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.ended === undefined) throw this.#failure?.error;
    return this.ended;
  }

  /** The handler failed after it was known what is recorded: its client shall not wait for the rest. */
  break(error: unknown): void {
    if (this.#over) return;
    this.#failure ??= { error };
    if (this.#sent) this.#response.destroy();
  }

  /** Forgets what was written, as if the handler had never been called. */
  discard(): void {
    this.#restore();
    applyHead(this.#response, this.#before);
    for (const event of this.#held.splice(0)) event();
  }

  /** Sends what was written; of a stream, what is written from now on follows it. */
  send(additions: HeaderList): void {
    const response = this.#response;
    const head = this.#head ?? headOf(response);
    this.#restore();
    this.#sent = true;
    if (this.#failure !== undefined) response.destroy();
    // The client may be gone: its answer is recorded.
    if (!response.destroyed) this.#release(head, additions);
    for (const event of this.#held.splice(0)) event();
  }

  #release(head: Head, additions: HeaderList): void {
    const response = this.#response;
    applyHead(response, head);
    for (const [name, value] of additions) response.setHeader(name, value);
    const body = concatenated(this.#pieces.splice(0));
    for (const done of this.#callbacks.splice(0)) response.once("finish", () => done());
    if (this.#over) response.end(hasNoBody(head.status) ? undefined : body);
    else {
      if (body.length > 0) response.write(body);
      else response.flushHeaders();
      if (this.#needsDrain) process.nextTick(() => response.emit("drain"));
    }
  }

  #patch(): void {
    const response = this.#response;
    for (const name of [...PATCHED, ...ASKED, ...GONE]) {
      this.#own.set(name, Object.getOwnPropertyDescriptor(response, name));
    }
    const emit = response.emit;
    const define = (name: string, descriptor: PropertyDescriptor): void => {
      Object.defineProperty(response, name, { configurable: true, enumerable: true, ...descriptor });
    };
    const value = (name: (typeof PATCHED)[number], method: unknown): void =>
      define(name, { value: method, writable: true });
    value("writeHead", (status: number, ...rest: unknown[]) => {
      this.#writeHead(status, rest);
      return response;
    });
    value("flushHeaders", () => this.#begun());
    value("write", (...given: readonly unknown[]) => this.#write(given));
    value("end", (...given: readonly unknown[]) => this.#end(given));
    value("destroy", (error?: Error) => {
      this.#failure ??= { error: error ?? new Error("the handler destroyed its response") };
      this.#wake();
      return response;
    });
    // A client that goes away is none of the handler's business: its work is finished.
    value("emit", (event: string | symbol, ...args: unknown[]) => {
      if (event !== "close") return emit.call(response, event, ...args);
      if (this.#held.length === 0) this.#held.push(() => response.emit(event, ...args));
      return true;
    });
    define("headersSent", { get: () => this.#head !== undefined });
    define("writableEnded", { get: () => this.#over });
    define("finished", { get: () => this.#over });
    for (const name of GONE) {
      this.#real.set(name, Reflect.get(response, name));
      define(name, { get: () => this.#present(name), set: (real) => this.#real.set(name, real) });
    }
  }

  /** As if the client were there. */
  #present(name: (typeof GONE)[number]): unknown {
    if (name !== "socket") return false;
    const socket = this.#real.get(name) as ServerResponse["socket"] | undefined;
    return socket?.destroyed === true ? null : socket;
  }

  #restore(): void {
    const response = this.#response;
    for (const [name, descriptor] of this.#own) {
      if (descriptor === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, descriptor);
    }
    for (const [name, real] of this.#real) Reflect.set(response, name, real);
  }

  #writeHead(status: number, rest: readonly unknown[]): void {
    const [first, second] = rest;
    const response = this.#response;
    response.statusCode = status;
    if (typeof first === "string") response.statusMessage = first;
    setHeaders(response, (typeof first === "string" ? second : (second ?? first)) as RawHeaders);
    this.#begun();
  }

  /** The head is what it is from here on. */
  #begun(): Head {
    if (this.#head === undefined) {
      this.#head = headOf(this.#response);
      const type = this.#head.headers.find(([name]) => name.toLowerCase() === "content-type")?.[1];
      if (isEventStream(type === undefined ? type : String(type))) this.#unreplayable("a stream of events");
    }
    return this.#head;
  }

  #write(given: readonly unknown[]): boolean {
    const [chunk, encoding, callback] = writing(given);
    this.#begun();
    this.#keep(chunk, encoding);
    if (callback !== undefined) process.nextTick(callback);
    // Until it is sent nothing more is taken than what is at hand.
    this.#needsDrain = this.ended !== undefined;
    return !this.#needsDrain;
  }

  #end(given: readonly unknown[]): ServerResponse {
    const [chunk, encoding, callback] = writing(given);
    if (callback !== undefined) this.#callbacks.push(callback);
    if (this.#over) return this.#response;
    const { status, headers } = this.#begun();
    this.#keep(chunk, encoding);
    this.#over = true;
    this.#decide({
      status,
      headers: flat(headers),
      body: hasNoBody(status) ? new Uint8Array() : concatenated(this.#pieces),
    });
    return this.#response;
  }

  #keep(chunk: unknown, encoding: BufferEncoding | undefined): void {
    if (chunk === undefined || chunk === null || this.#over) return;
    if (typeof chunk !== "string" && !(chunk instanceof Uint8Array)) {
      throw new TypeError("a chunk of an answer is a string or a Uint8Array");
    }
    // A copy: whoever wrote it may use its buffer again.
    const piece = typeof chunk === "string" ? Buffer.from(chunk, encoding) : Buffer.from(chunk);
    this.#pieces.push(piece);
    this.#size += piece.length;
    if (this.#size > this.#maxBytes) this.#unreplayable(tooLong(this.#maxBytes));
  }

  #unreplayable(unreplayable: string): void {
    this.#decide({ status: this.#begun().status, unreplayable });
  }

  #decide(answer: RunResponse): void {
    if (this.ended !== undefined) return;
    this.ended = answer;
    this.#wake();
  }

  #wake(): void {
    for (const waiting of this.#waiting.splice(0)) waiting();
  }
}

/** Sends an answer on a response that nothing was written to. What a middleware set stays, where the answer has no other. */
export function sendAnswer(response: ServerResponse, { status, headers, body }: Answer): void {
  response.statusCode = status;
  setHeaders(response, headers);
  response.end(hasNoBody(status) ? undefined : body);
}

type RawHeaders =
  | OutgoingHttpHeaders
  | readonly HeaderValue[]
  | readonly (readonly [name: string, value: HeaderValue])[]
  | undefined;

/** What is there more than once stays so. */
function setHeaders(response: ServerResponse, given: RawHeaders): void {
  if (given === undefined || given === null) return;
  const headers = new Map<string, HeaderValue>();
  for (const [name, value] of pairs(given)) {
    if (value === undefined) continue;
    const earlier = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), earlier === undefined ? value : [earlier, value].flat().map(String));
    response.setHeader(name, headers.get(name.toLowerCase()) as HeaderValue);
  }
}

function pairs(
  given: NonNullable<RawHeaders>,
): readonly (readonly [string, OutgoingHttpHeader | undefined])[] {
  if (!Array.isArray(given)) return Object.entries(given as OutgoingHttpHeaders);
  if (given.every((each) => Array.isArray(each))) return given as [string, HeaderValue][];
  const names = given as readonly HeaderValue[];
  return names.flatMap((name, index) => (index % 2 === 0 ? [[String(name), names[index + 1]] as const] : []));
}

/** As they were set; Node has it for requests and for responses, its types for requests alone. */
type WithRawNames = ServerResponse & { getRawHeaderNames(): string[] };

function headOf(response: ServerResponse): Head {
  const headers = (response as WithRawNames).getRawHeaderNames().flatMap((name) => {
    const value = response.getHeader(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return { status: response.statusCode, message: response.statusMessage, headers };
}

function applyHead(response: ServerResponse, { status, message, headers }: Head): void {
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  response.statusCode = status;
  response.statusMessage = message;
  for (const [name, value] of headers) response.setHeader(name, value);
}

function flat(headers: Head["headers"]): HeaderList {
  return headers.flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)] as const));
}

function writing(
  given: readonly unknown[],
): readonly [unknown, BufferEncoding | undefined, Callback | undefined] {
  const callback = given.find((each) => typeof each === "function") as Callback | undefined;
  const [chunk, encoding] = given.filter((each) => typeof each !== "function");
  return [chunk, encoding as BufferEncoding | undefined, callback];
}
