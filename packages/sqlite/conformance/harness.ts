/** The conformance harness of the SQLite driver: a space is a file, a session a connection to it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AppTransaction,
  type ConnectOptions,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import Database from "better-sqlite3";
import { SqliteDriver } from "../src/driver.ts";
import { capabilities } from "../src/index.ts";
import { STATEMENTS } from "../src/statements.ts";
import { faultsOf } from "./faults.ts";
import { beHostile } from "./hostile.ts";
import { mutants } from "./mutants/index.ts";
import { probeOf } from "./probe.ts";

const BUSY_BUDGET_MS = 5_000;

/** The pragmas of a connection that a driver could want otherwise. */
const SETTINGS: readonly string[] = [
  "busy_timeout",
  "foreign_keys",
  "synchronous",
  "cache_size",
  "temp_store",
  "wal_autocheckpoint",
  "recursive_triggers",
  "journal_size_limit",
  "read_uncommitted",
  "query_only",
];

const harness: Harness = defineHarness({
  driver: { name: "@dovecote/sqlite", version: "0.0.0", contract: 1 },
  capabilities,
  mutants,
  async createSpace() {
    const folder = mkdtempSync(join(tmpdir(), "dovecote-"));
    const file = join(folder, "space.db");
    const db = new Database(file);
    db.exec("create table business (id text primary key)");
    db.close();
    return {
      locator: file,
      async dispose() {
        rmSync(folder, { recursive: true });
      },
    };
  },
  async connect(locator, options) {
    return connect(String(locator), options);
  },
});

export default harness;

function connect(file: string, { mutant, hostile }: ConnectOptions): Session {
  const client = new Database(file);
  if (hostile) beHostile(client);
  // Reads, and faults: never the connection of the driver.
  const other = new Database(file);
  const broken = mutants.find(({ name }) => name === mutant);
  const texts = broken !== undefined && "texts" in broken ? broken.texts(STATEMENTS) : STATEMENTS;
  const driver = new SqliteDriver({ client, ownsClient: false, busyBudgetMs: BUSY_BUDGET_MS, texts });
  const tx: AppTransaction = {
    handle: client,
    writeBusinessRow(id) {
      client.prepare("insert into business (id) values (?)").run(id);
    },
  };
  return {
    driver: broken !== undefined && "wrap" in broken ? broken.wrap(driver, client) : driver,
    root: client,
    async transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>> {
      return await client.transaction(() => fn(tx)).immediate();
    },
    begin: async () => begin(client, tx),
    probe: probeOf(other),
    faults: faultsOf(other, client, file),
    async settings() {
      return Object.fromEntries(
        SETTINGS.map((name) => [name, String(client.pragma(name, { simple: true }))]),
      );
    },
    async close() {
      client.close();
      other.close();
    },
  };
}

function begin(client: Database.Database, tx: AppTransaction): OpenTransaction {
  client.exec("begin immediate");
  return {
    ...tx,
    async commit() {
      client.exec("commit");
    },
    async rollback() {
      client.exec("rollback");
    },
    async savepoint() {
      client.exec("savepoint application");
      return {
        async rollback() {
          client.exec("rollback to application; release application");
        },
      };
    },
  };
}
