/** A multipart upload, written to a file as it arrives. */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyHeaders } from "@fastify/busboy";

export interface Upload {
  readonly fields: Readonly<Record<string, string | undefined>>;
  /** `undefined` if there was no file. */
  readonly file: { readonly bytes: number; readonly sha256: string } | undefined;
}

/** @param received is told how many bytes of the file there are so far, and waited for. */
export async function receive(
  request: IncomingMessage,
  path: string,
  received: (bytes: number) => Promise<void>,
): Promise<Upload> {
  const fields: Record<string, string> = {};
  const saving: Promise<NonNullable<Upload["file"]>>[] = [];
  const busboy = Busboy({ headers: request.headers as BusboyHeaders, limits: { files: 1 } });
  busboy.on("field", (name, value) => {
    fields[name] = value;
  });
  busboy.on("file", (_, file) => {
    const saved = save(file, path, received);
    saved.catch((error: Error) => busboy.destroy(error));
    saving.push(saved);
  });
  await pipeline(request, busboy);
  return { fields, file: await saving[0] };
}

async function save(
  file: Readable,
  path: string,
  received: (bytes: number) => Promise<void>,
): Promise<NonNullable<Upload["file"]>> {
  const hash = createHash("sha256");
  let bytes = 0;
  async function* seen(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      hash.update(piece);
      bytes += piece.length;
      await received(bytes);
      yield piece;
    }
  }
  await pipeline(file, seen, createWriteStream(path, { flags: "wx" }));
  return { bytes, sha256: hash.digest("hex") };
}
