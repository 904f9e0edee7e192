/** `POST /books`: a title, an author and a PDF. It is safe to send again. */
import { rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { idempotent } from "@dovecote/http/node";
import type { Library } from "./library.ts";
import { receive } from "./upload.ts";

/** Short, so that the story is: for how long a key is in flight after its server was killed. */
const LEASE_MS = 1500;

/** Where a server can be held up. */
export interface Stages {
  receiving(bytes: number): Promise<void>;
  committed(): Promise<void>;
}

export function createBookServer(library: Library, stages: Stages): Server {
  const safely = idempotent(library.outbox, {
    // Whoever is logged in, in an application that has that.
    principal: () => null,
    // What makes two uploads the same one: never the bytes of the file, which would have to be read first.
    fingerprint: { fields: ["title", "author"] },
    leaseMs: LEASE_MS,
  });
  const upload = safely({ mode: "record", takeover: "rerun" }, async (request, _response, { commit }) => {
    const { name, path } = library.newFile();
    let book = false;
    try {
      const { fields, file } = await receive(request, path, (bytes) => stages.receiving(bytes));
      const { title, author } = fields;
      if (title === undefined || author === undefined || file === undefined) {
        return { status: 400, body: "A book has a title, an author and a file." };
      }
      // From here on there may be a book that has the file: also when it is not known how the commit ended.
      book = true;
      // Row, event and answer: all of them, if this attempt still has the key, or none.
      const answer = await commit((tx) => {
        const { id, ...added } = library.add(tx, { title, author, file: name, ...file });
        return {
          status: 201,
          headers: [
            ["content-type", "application/json"],
            ["location", `/books/${id}`],
          ],
          body: JSON.stringify({ id, ...added }),
        };
      });
      await stages.committed();
      return answer;
    } finally {
      if (!book) await rm(path, { force: true });
    }
  });
  return createServer((request, response) => {
    if (request.method === "POST" && request.url === "/books") return upload(request, response);
    return response.writeHead(404).end();
  });
}
