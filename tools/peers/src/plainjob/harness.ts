/** plainjob as a black box: a space is a file, a session a connection to it that the queue shares with the application. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AppTransaction,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import Database from "better-sqlite3";
import { capabilities, plainjobDriver } from "./driver.ts";
import { faultsOf } from "./faults.ts";
import { probeOf } from "./probe.ts";

const harness: Harness = defineHarness({
  driver: { name: "plainjob", version: "0.0.14", contract: 1 },
  capabilities,
  async createSpace() {
    const folder = mkdtempSync(join(tmpdir(), "dovecote-plainjob-"));
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
  connect: async (locator) => connect(String(locator)),
});

export default harness;

/** Who claimed what in this process: cases tell claims apart by the worker, whom plainjob does not store. */
const claimers = new Map<string, string>();

function connect(file: string): Session {
  const client = new Database(file);
  const other = new Database(file);
  const tx: AppTransaction = {
    handle: client,
    writeBusinessRow(id) {
      client.prepare("insert into business (id) values (?)").run(id);
    },
  };
  const driver = plainjobDriver(client, (rowId, worker) => claimers.set(`${file} ${rowId}`, worker));
  return {
    driver,
    root: client,
    async transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>> {
      return await client.transaction(() => fn(tx)).immediate();
    },
    begin: async () => begin(client, tx),
    probe: probeOf(other, (rowId) => claimers.get(`${file} ${rowId}`) ?? null),
    faults: faultsOf(other, file),
    settings: async () => ({ busy_timeout: String(client.pragma("busy_timeout", { simple: true })) }),
    async close() {
      await driver.close();
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
