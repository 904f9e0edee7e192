/** The keeper of one PgBouncer: starts it, says where it is, and ends it when the parent disconnects. */
import { type ChildProcess, spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { serverUser } from "./files.ts";
import { type PoolerFiles, preparePooler } from "./pooler-files.ts";
import type { Started } from "./server-child.ts";
import { freePort, tail } from "./server-process.ts";

/** By name: what is set on every server connection of that pool. */
export type Pools = Readonly<Record<string, Readonly<Record<string, string>>>>;

const [serverUrl = "", poolsJson = "{}"] = process.argv.slice(2);
let files: PoolerFiles | undefined;
let pooler: ChildProcess | undefined;

function end(): void {
  pooler?.kill("SIGKILL");
  if (files !== undefined) rmSync(files.folder, { recursive: true, force: true });
  process.exit();
}

process.once("disconnect", end);
process.once("SIGTERM", end);
process.once("SIGINT", () => {}); // a Ctrl-C goes to the whole group; the parent decides

function settings(port: number, pools: Pools): string {
  const server = new URL(serverUrl);
  const address = `host=${server.hostname} port=${server.port} dbname=${server.pathname.slice(1)}`;
  const login = `user=${server.username} password=${server.password}`;
  const lines = Object.entries(pools).map(([name, set]) => {
    const query = Object.entries(set).map(([setting, value]) => `set ${setting} = ''${value}''`);
    return `${name} = ${address} ${login}${query.length === 0 ? "" : ` connect_query='${query.join("; ")}'`}`;
  });
  return `[databases]
${lines.join("\n")}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
default_pool_size = 40
max_client_conn = 2000
`;
}

async function start(): Promise<string> {
  files = preparePooler();
  const port = await freePort();
  const file = join(files.folder, "pgbouncer.ini");
  writeFileSync(file, settings(port, JSON.parse(poolsJson) as Pools));
  const process = spawn(files.command, [file], { ...serverUser(), cwd: files.folder, env: files.env });
  pooler = process;
  await new Promise<void>((resolve, reject) => {
    const printed = tail(process, (text) => {
      if (text.includes("process up")) resolve();
    });
    process.once("error", reject);
    process.once("close", (code) => reject(new Error(`pgbouncer exited with ${code}\n${printed()}`)));
  });
  return `postgres://postgres@127.0.0.1:${port}`;
}

try {
  process.send?.({ url: await start() } satisfies Started);
} catch (error) {
  process.send?.({ error: error instanceof Error ? error.message : String(error) } satisfies Started);
  end();
}
