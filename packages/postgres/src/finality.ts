/**
 * Which rows are final: no transaction can still commit a lower row id. Row ids are drawn before the commit, so that a
 * row may appear below one that is already visible, and transaction ids say nothing of their order.
 *
 * Whoever inserts an event takes ROW EXCLUSIVE on the table before the row id is drawn, and gives it back after the
 * commit is visible. So of the rows up to M, committed when it is read, every one is there, in a later snapshot, once the
 * transactions have ended that held that lock then (PAGE-04). Those of others do not matter, and nobody is locked out.
 */
import { performance } from "node:perf_hooks";
import { DovecoteError } from "@dovecote/core";
import type { Run } from "./client.ts";
import { safeRowId } from "./rows.ts";
import type { StatementTexts } from "./statements.ts";

interface Look {
  /** When it was started: another time, another server. */
  readonly server: string;
  /** A standby: it shows no lock of the server that writes. */
  readonly standby: boolean;
  readonly lastRowId: number;
  readonly writers: readonly Writer[];
}

/** A transaction that holds the lock. */
interface Writer {
  /** Such as `3/17`. Another one after PREPARE TRANSACTION and a restart of the server. */
  readonly virtual: string;
  /** Its transaction id, and those of its savepoints; empty until it writes. They stay. */
  readonly ids: readonly string[];
  readonly prepared: boolean;
}

interface Barrier {
  readonly upTo: number;
  readonly since: number;
  /** Open when `upTo` was read. */
  readonly writers: readonly Writer[];
}

/** What is known of the rows that will not change in number. */
export interface Final {
  /** Every row up to here is final. */
  readonly rowId: number;
  readonly lastRowId: number;
  /** For how long rows have been kept back, in ms from 1; 0 if none is. */
  readonly heldBackMs: number;
}

/** Of one driver: what one reader found out is good for all of them. */
export class Finality {
  readonly #run: Run;
  readonly #texts: StatementTexts;
  readonly #table: string;
  #server = "";
  #rowId = 0;
  #lastRowId = 0;
  #barrier: Barrier | undefined;
  #looking: Promise<void> | undefined;

  constructor(run: Run, texts: StatementTexts, quotedSchema: string) {
    this.#run = run;
    this.#texts = texts;
    this.#table = `${quotedSchema}.dovecote_events`;
  }

  /**
   * Looks once, unless rows above `after` are known to be final.
   *
   * @throws `STORE_READ_ONLY` on a standby.
   */
  async above(after: number): Promise<Final> {
    return this.#rowId > after ? this.#known() : this.look();
  }

  /** Readers that come meanwhile take the same answer: what is final stays so. */
  async look(): Promise<Final> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
    return this.#known();
  }

  #known(): Final {
    const since = this.#barrier?.since;
    return {
      rowId: this.#rowId,
      lastRowId: this.#lastRowId,
      heldBackMs: since === undefined ? 0 : Math.max(1, Math.ceil(performance.now() - since)),
    };
  }

  async #lookOnce(): Promise<void> {
    const { server, standby, lastRowId, writers } = await this.#read();
    if (standby) {
      const message = "a standby shows no transaction of the server that writes: follow that one";
      throw new DovecoteError("STORE_READ_ONLY", message);
    }
    // After a restart or a failover transactions have other names, and there may be fewer rows.
    if (server !== this.#server) {
      this.#server = server;
      this.#rowId = 0;
      this.#barrier = undefined;
    }
    this.#lastRowId = lastRowId;
    if (this.#barrier !== undefined) {
      const left = stillOpen(this.#barrier.writers, writers);
      if (left.length > 0) {
        this.#barrier = { ...this.#barrier, writers: left };
        return;
      }
      this.#rowId = Math.max(this.#rowId, this.#barrier.upTo);
      this.#barrier = undefined;
    }
    if (lastRowId <= this.#rowId) return;
    if (writers.length === 0) this.#rowId = lastRowId;
    else this.#barrier = { upTo: lastRowId, since: performance.now(), writers };
  }

  async #read(): Promise<Look> {
    const [row] = await this.#run(this.#texts.writers, [this.#table]);
    const [server, standby, lastRowId, writers] = row ?? [];
    return {
      server: String(server),
      standby: standby === "true",
      lastRowId: safeRowId(String(lastRowId)),
      writers: JSON.parse(String(writers)) as Writer[],
    };
  }
}

/**
 * Those of `before` that have not ended. One that had no transaction id yet may have been prepared since under a name of
 * which nothing is known: then every prepared one that is new may be it. Those have an id, so that this ends.
 */
function stillOpen(before: readonly Writer[], now: readonly Writer[]): readonly Writer[] {
  const known = new Set(before.flatMap(namesOf));
  const present = new Set(now.flatMap(namesOf));
  const oneVanished = before.some(({ virtual, ids }) => ids.length === 0 && !present.has(virtual));
  return now.filter(
    (writer) => namesOf(writer).some((name) => known.has(name)) || (oneVanished && writer.prepared),
  );
}

function namesOf({ virtual, ids }: Writer): readonly string[] {
  return [virtual, ...ids];
}
