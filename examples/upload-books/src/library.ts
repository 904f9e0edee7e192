/** The application: books in a SQLite file, with their PDFs in a folder beside it. */
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type SqliteDovecote, type SqliteTransaction, sqlite } from "@dovecote/sqlite";
import Database from "better-sqlite3";

interface Book {
  readonly id: number;
  readonly title: string;
  readonly author: string;
  /** Its name in the folder. */
  readonly file: string;
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

export interface Library {
  readonly outbox: SqliteDovecote<Database.Database>;
  /** Where a file goes that no other attempt writes to. */
  newFile(): { readonly name: string; readonly path: string };
  pathOf(book: Book): string;
  /** The book and its event, in the caller's transaction. */
  add(tx: SqliteTransaction<Database.Database>, book: Omit<Book, "id">): Book;
  books(): readonly Book[];
  /** Files of attempts that died: no book has them. While nobody uploads. Answers how many there were. */
  removeOrphans(): Promise<number>;
  close(): Promise<void>;
}

export async function openLibrary(folder: string): Promise<Library> {
  const files = join(folder, "files");
  mkdirSync(files, { recursive: true });
  const db = new Database(join(folder, "library.db"));
  const outbox = sqlite(db);
  await outbox.migrate();
  db.exec(`create table if not exists books (id integer primary key, title text not null, author text not null,
    file text not null, bytes integer not null, sha256 text not null)`);
  const books = (): readonly Book[] => db.prepare("select * from books order by id").all() as Book[];
  return {
    outbox,
    newFile() {
      const name = `${randomUUID()}.pdf`;
      return { name, path: join(files, name) };
    },
    pathOf: ({ file }) => join(files, file),
    add(tx, book) {
      const insert = tx.client.prepare(`insert into books (title, author, file, bytes, sha256)
        values (:title, :author, :file, :bytes, :sha256) returning *`);
      const added = insert.get(book) as Book;
      const event = { stream: "books", source: "/books", id: String(added.id), type: "book.added" };
      outbox.enqueue(tx, { ...event, data: added });
      return added;
    },
    books,
    async removeOrphans() {
      const kept = new Set(books().map(({ file }) => file));
      const orphans = (await readdir(files)).filter((file) => !kept.has(file));
      await Promise.all(orphans.map((file) => rm(join(files, file))));
      return orphans.length;
    },
    async close() {
      await outbox.close();
      db.close();
    },
  };
}
