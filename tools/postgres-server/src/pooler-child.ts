/** The keeper of one PgBouncer: starts it, says where it is, and ends it when the parent disconnects. */
import { type ChildProcess, spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { serverUser } from "./files.ts";
import { NoPooler, type PoolerFiles, preparePooler } from "./pooler-files.ts";
import type { Started } from "./server-child.ts";
import { freePort, tail } from "./server-process.ts";

const [serverUrl = "", ...roles] = process.argv.slice(2);
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

function settings(port: number, users: string): string {
  const { hostname, port: serverPort, pathname } = new URL(serverUrl);
  return `[databases]
${pathname.slice(1)} = host=${hostname} port=${serverPort}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
default_pool_size = 40
max_client_conn = 2000
`;
}

async function start(): Promise<string> {
  files = preparePooler();
  const port = await freePort();
  const { username, password, pathname } = new URL(serverUrl);
  const users = join(files.folder, "users.txt");
  writeFileSync(users, [username, ...roles].map((role) => `"${role}" "${password}"\n`).join(""));
  const file = join(files.folder, "pgbouncer.ini");
  writeFileSync(file, settings(port, users));
  const process = spawn(files.command, [file], { ...serverUser(), cwd: files.folder, env: files.env });
  pooler = process;
  await new Promise<void>((resolve, reject) => {
    const printed = tail(process, (text) => {
      if (text.includes("process up")) resolve();
    });
    process.once("error", reject);
    process.once("close", (code) => reject(new Error(`pgbouncer exited with ${code}\n${printed()}`)));
  });
  return `postgres://${username}@127.0.0.1:${port}${pathname}`;
}

try {
  process.send?.({ url: await start() } satisfies Started);
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  process.send?.({ error: message, unavailable: error instanceof NoPooler } satisfies Started);
  end();
}
