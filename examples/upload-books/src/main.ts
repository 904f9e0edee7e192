/**
 * A reader uploads a book, and the server is killed twice: in the middle of the file, and after its commit before its answer.
 * The reader sends it again and again. Exit code 1 if there is more than one book or none, if its file is not the one that
 * was sent, or if a server held it in memory.
 */
import { createHash } from "node:crypto";
import { createReadStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { InvalidArgumentError, program } from "commander";
import { openLibrary } from "./library.ts";
import { insist, type Parcel, writeFile } from "./reader.ts";
import { type BookServer, startServer } from "./servers.ts";
import { tell } from "./story.ts";

const MIB = 2 ** 20;
/** From here on a file that is held in memory shows in the memory of a server. */
const LARGE_MIB = 100;

const { size } = program
  .description("An upload that is sent again and again, and makes one book.")
  .option("--size <MiB>", "of the file", toSize, 200)
  .parse()
  .opts<{ size: number }>();
const folder = mkdtempSync(join(tmpdir(), "dovecote-books-"));
const faults: string[] = [];
try {
  await story();
} finally {
  rmSync(folder, { recursive: true });
}
for (const fault of faults) console.error(`FAULT: ${fault}`);
console.log(
  faults.length === 0 ? "There is one book, and its file is whole." : "The guarantees did not hold.",
);
process.exitCode = faults.length === 0 ? 0 : 1;

async function story(): Promise<void> {
  const path = join(folder, "dune.pdf");
  await writeFile(path, size);
  const dune: Parcel = { key: "key-1", title: "Dune", author: "Frank Herbert", path };
  // One after the other: the first one makes the tables.
  const first = await startServer(folder, { at: "receiving", bytes: (size * MIB) / 2 });
  const second = await startServer(folder, { at: "committed" });
  const third = await startServer(folder);
  console.log(`A file of ${size} MiB, three servers, and a SQLite file that is removed at the end.`);

  tell("reader", `POST /books with key-1: Dune, ${size} MiB`);
  await killed(first, dune);
  tell("fate", "killed the server (SIGKILL) in the middle of the file");

  tell("reader", "heard nothing, and sends key-1 again");
  const peak = await killed(second, dune);
  tell("fate", "killed the server (SIGKILL) after its commit, before its answer");

  tell("reader", "heard nothing, and sends key-1 again, and again");
  const heard = [await insist(third.url, dune), await insist(third.url, dune)];
  for (const { status, outcome, location } of heard) {
    tell("reader", `hears ${status} ${outcome}: ${location}`);
    check("a retry", `${status} ${outcome} ${location}`, "201 replayed /books/1");
  }
  tell("reader", "sends key-1 with another title");
  const other = await insist(third.url, { ...dune, title: "Dune Messiah" });
  tell("reader", `hears ${other.status} ${other.outcome}`);
  check("another title", `${other.status} ${other.outcome}`, "422 mismatch");
  await third.stop();

  console.log("");
  const library = await openLibrary(folder);
  const books = library.books();
  const { entries } = await library.outbox.page({ limit: 100 });
  console.log(`books: ${books.length}, events: ${entries.length}`);
  check("what there is", `${books.length} book, ${entries.length} event`, "1 book, 1 event");
  const [book] = books;
  if (book !== undefined) {
    check("the file", await digestOf(library.pathOf(book)), await digestOf(path));
    check("its digest", book.sha256, await digestOf(path));
    for (const { body } of heard) check("an answer", body, JSON.stringify(book));
  }
  console.log(`files of attempts that died, now removed: ${await library.removeOrphans()}`);
  await library.close();
  const grown = peak - second.peak;
  console.log(
    `peak RSS of the server that took it all: ${mebibytes(peak)} MiB, ${mebibytes(grown)} MiB more than before it`,
  );
  if (size >= LARGE_MIB && grown > (size * MIB) / 2) faults.push("a server held the file in memory");
}

/** Sends until the server stalls, and kills it. Answers the most memory that it had, in bytes. */
async function killed(server: BookServer, parcel: Parcel): Promise<number> {
  const heard = insist(server.url, parcel).then(
    ({ status }) => faults.push(`a server that was to be killed answered ${status}`),
    () => undefined,
  );
  const { peak } = await server.stalled;
  await server.kill();
  await heard;
  return peak;
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / MIB);
}

function check(what: string, found: string, expected: string): void {
  if (found !== expected) faults.push(`${what}: ${found}, and not ${expected}`);
}

function toSize(text: string): number {
  const given = Number(text);
  if (!Number.isInteger(given) || given < 1 || given > 10_000) {
    throw new InvalidArgumentError("It is a whole number from 1 to 10000.");
  }
  return given;
}
