/** The conformance harness: a space is a file in a folder of its own, a session opens connections to it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import {
  type AppTransaction,
  type ConnectOptions,
  defineHarness,
  type Harness,
  type OpenTransaction,
  type Session,
} from "@dovecote/conformance";
import { capabilities } from "../src/capabilities.ts";
import { hasTransaction, openWritable } from "../src/client.ts";
import { NodeSqliteDriver } from "../src/driver.ts";
import { STATEMENTS } from "../src/statements.ts";
import { faultsOf } from "./faults.ts";
import { beHostile } from "./hostile.ts";
import { mutants } from "./mutants.ts";
import { probeOf } from "./probe.ts";

/** Long enough for the races, short enough for the case that waits until it is used up. */
const BUSY_BUDGET_MS = 5_000;

const harness: Harness = defineHarness({
  driver: { name: "node-sqlite-driver", version: "0.0.0", contract: 1 },
  capabilities,
  mutants: mutants.map(({ name, breaks, because }) => ({ name, breaks, because })),
  async createSpace() {
    const folder = mkdtempSync(join(tmpdir(), "node-sqlite-driver-"));
    const file = join(folder, "space.db");
    const db = new DatabaseSync(file);
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

function connect(path: string, { mutant, hostile }: ConnectOptions): Session {
  // Three parties: the driver, the application, and an observer, who also breaks things behind their backs.
  const client = openWritable(path);
  const [application, observer] = [new DatabaseSync(path), new DatabaseSync(path)];
  for (const each of [application, observer]) each.exec(`pragma busy_timeout = ${BUSY_BUDGET_MS}`);
  if (hostile) for (const each of [client, application]) beHostile(each);
  const texts = mutants.find(({ name }) => name === mutant)?.texts(STATEMENTS) ?? STATEMENTS;
  const driver = new NodeSqliteDriver({ client, busyBudgetMs: BUSY_BUDGET_MS, texts });
  let open = true;
  const tx: AppTransaction = {
    handle: application,
    writeBusinessRow(id) {
      application.prepare("insert into business (id) values (?)").run(id);
    },
  };
  return {
    driver,
    root: application,
    async transaction<T>(fn: (tx: AppTransaction) => T): Promise<Awaited<T>> {
      application.exec("begin immediate");
      try {
        const result = fn(tx);
        application.exec("commit");
        return await result;
      } catch (error) {
        if (hasTransaction(application)) application.exec("rollback");
        throw error;
      }
    },
    begin: async () => begin(application, tx),
    probe: probeOf(observer),
    faults: faultsOf(observer, [client, application], path),
    // The driver's client is its own: the application's is never its business.
    async settings() {
      const { timeout } = application.prepare("select timeout from pragma_busy_timeout").get() ?? {};
      return { busy_timeout: String(timeout) };
    },
    // Idempotent. The suite has closed the store, and with it the driver.
    async close() {
      if (open) for (const each of [application, observer]) each.close();
      open = false;
    },
  };
}

function begin(application: DatabaseSync, tx: AppTransaction): OpenTransaction {
  application.exec("begin immediate");
  return {
    ...tx,
    async commit() {
      application.exec("commit");
    },
    async rollback() {
      application.exec("rollback");
    },
    async savepoint() {
      application.exec("savepoint application");
      return {
        async rollback() {
          application.exec("rollback to application; release application");
        },
      };
    },
  };
}
