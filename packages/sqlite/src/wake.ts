/**
 * Wake-ups: noticing commits that made rows due, in this process at once and in others within a few milliseconds.
 *
 * SQLite has no notification. What it has is `PRAGMA data_version`, which changes on a connection exactly when another
 * connection has committed, never on a rollback. A connection of our own reads it when the operating system reports a
 * write to the files of the database, and on a short timer as the safety net. With `synchronous = FULL` the report
 * comes before the commit is visible, so the first look is followed by others.
 */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import { Listeners } from "@dovecote/core";
import { anyDue } from "./claim.ts";
import { Connection } from "./connection.ts";
import { openReadOnly } from "./open.ts";
import type { StatementTexts } from "./statements.ts";

/** What looks for commits. `nudge` says that this process may have just committed. */
export interface Waker {
  subscribe(listener: () => void): () => void;
  nudge(): void;
  close(): void;
}

const POLL_MS = 25;
/** After a report of the file system: the commit is visible within these pauses. */
const LOOK_AGAIN_MS: readonly number[] = [1, 3, 8];

const EVERYTHING = { tenant: null, stream: null } as const;

abstract class ListenerSet implements Waker {
  readonly #listeners = new Listeners();

  subscribe(call: () => void): () => void {
    if (this.#listeners.size === 0) this.start();
    const remove = this.#listeners.add(call);
    return () => {
      if (remove() && this.#listeners.size === 0) this.stop();
    };
  }

  nudge(): void {
    // The caller's synchronous transaction commits before microtasks run.
    if (this.#listeners.size > 0) queueMicrotask(() => this.#listeners.size > 0 && this.look());
  }

  close(): void {
    if (this.#listeners.size > 0) this.stop();
    this.#listeners.clear();
  }

  protected emit(): void {
    this.#listeners.ring();
  }

  protected abstract start(): void;
  protected abstract stop(): void;
  protected abstract look(): void;
}

/** Watches the files of a database. */
export class FileWaker extends ListenerSet {
  readonly #path: string;
  readonly #texts: StatementTexts;
  #connection: Connection | undefined;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #seen = -1;

  constructor(path: string, texts: StatementTexts) {
    super();
    this.#path = path;
    this.#texts = texts;
  }

  protected start(): void {
    this.#connection = new Connection(openReadOnly(this.#path), this.#texts);
    this.#seen = this.#version(this.#connection);
    this.#timer = setInterval(() => this.look(), POLL_MS);
    this.#timer.unref();
    try {
      // The directory, not the file: the WAL comes and goes. Names begin with that of the database.
      const name = basename(this.#path);
      this.#watcher = watch(dirname(this.#path), { persistent: false }, (_event, changed) => {
        if (changed === null || changed.startsWith(name)) this.#lookSoon();
      });
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      // No watches left, or a file system without them: the timer goes on alone.
    }
  }

  protected stop(): void {
    clearInterval(this.#timer);
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#connection?.client.close();
    this.#connection = undefined;
  }

  protected look(): boolean {
    const connection = this.#connection;
    if (connection === undefined) return true;
    try {
      const version = this.#version(connection);
      if (version === this.#seen) return false;
      const due = anyDue(connection, EVERYTHING);
      this.#seen = version;
      if (due) this.emit();
      return true;
    } catch {
      // Locked for a moment, or damaged for good: a timer is no place to say so. Whoever polls is told.
      return false;
    }
  }

  #lookSoon(): void {
    if (this.look()) return;
    for (const pauseMs of LOOK_AGAIN_MS) setTimeout(() => this.look(), pauseMs).unref();
  }

  #version(connection: Connection): number {
    return (connection.statement("dataVersion").get() as { data_version: number }).data_version;
  }
}

/** A database in memory has one connection, so that only this process commits to it. */
export class MemoryWaker extends ListenerSet {
  readonly #connection: Connection;
  #waiting: NodeJS.Timeout | undefined;

  constructor(connection: Connection) {
    super();
    this.#connection = connection;
  }

  protected start(): void {}

  protected stop(): void {
    clearTimeout(this.#waiting);
  }

  protected look(): void {
    const { client } = this.#connection;
    if (!client.open) return;
    if (client.inTransaction) {
      clearTimeout(this.#waiting);
      this.#waiting = setTimeout(() => this.look(), POLL_MS).unref();
    } else if (this.#anyDue()) {
      this.emit();
    }
  }

  #anyDue(): boolean {
    try {
      return anyDue(this.#connection, EVERYTHING);
    } catch {
      return false; // a microtask is no place to say so; whoever polls is told
    }
  }
}
