/** Somebody who has a book, and sends it until there is an answer. */
import { randomFillSync } from "node:crypto";
import { createWriteStream, openAsBlob } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { tell } from "./story.ts";

const MIB = 2 ** 20;

export interface Parcel {
  readonly key: string;
  readonly title: string;
  readonly author: string;
  readonly path: string;
}

export interface Heard {
  readonly status: number;
  /** `created`, `replayed`, or the code of a problem. */
  readonly outcome: string | null;
  readonly location: string | null;
  readonly body: string;
}

/** A file of so many MiB that nothing can compress. */
export async function writeFile(path: string, mebibytes: number): Promise<void> {
  function* pieces(): Generator<Buffer> {
    for (let written = 0; written < mebibytes; written += 1) yield randomFillSync(Buffer.alloc(MIB));
  }
  await pipeline(Readable.from(pieces()), createWriteStream(path));
}

/** Streams the file from the disk; every time with another boundary. @throws TypeError if the server is gone. */
async function send(url: string, { key, title, author, path }: Parcel): Promise<Response> {
  const body = new FormData();
  body.set("title", title);
  body.set("author", author);
  body.set("file", await openAsBlob(path, { type: "application/pdf" }), "book.pdf");
  return fetch(url, { method: "POST", body, headers: { "idempotency-key": `"${key}"` } });
}

/** Asks again as long as it is told when to. */
export async function insist(url: string, parcel: Parcel): Promise<Heard> {
  for (;;) {
    const response = await send(url, parcel);
    const { status, headers } = response;
    const outcome = headers.get("idempotency-status");
    const after = headers.get("retry-after");
    const body = await response.text();
    if (after === null) return { status, outcome, location: headers.get("location"), body };
    tell("reader", `hears ${status} ${outcome}: asks again in ${after} s`);
    await delay(Number(after) * 1000);
  }
}
