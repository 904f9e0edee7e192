/** One Postgres server: a cluster of its own, and the process that serves it. */
import { type ChildProcess, spawn } from "node:child_process";
import { chownSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerFiles } from "./files.ts";

/** `fast` ends every connection and writes a checkpoint; `immediate` is a crash that the next start recovers from. */
export type StopMode = "fast" | "immediate";

/** A standby has nothing to follow: it takes no writes, and shows what it had. */
export type StartMode = "primary" | "standby";

export interface RunningServer {
  /** Of the superuser, on loopback. Stays the same when it is started again. */
  readonly url: string;
  /** Answers when the process is gone. Nothing is done where it is not running. */
  stop(mode?: StopMode): Promise<void>;
  /** Again, after a stop: on the same port, with the same data. Answers when connections are taken. */
  start(mode?: StartMode): Promise<void>;
}

const SIGNALS = { fast: "SIGINT", immediate: "SIGQUIT" } as const;

const PASSWORD = "dovecote";
const MAX_CONNECTIONS = 200;
/** What is looked for in the log must not be translated. */
const ENV = { ...process.env, LC_MESSAGES: "C" };

export async function startProcess(
  { folder, initdb, postgres, user }: ServerFiles,
  flags: readonly string[],
): Promise<RunningServer> {
  const data = join(folder, "data");
  const passwordFile = join(folder, "password");
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  if (user !== undefined) for (const path of [data, passwordFile]) chownSync(path, user.uid, user.gid);

  const options = { ...user, cwd: folder, env: ENV } as const;
  const cluster = ["--pgdata", data, "--username=postgres", "--auth=password", `--pwfile=${passwordFile}`];
  await ended(spawn(initdb, [...cluster, "--lc-messages=C", "--encoding=UTF8", "--no-sync"], options));

  const port = await freePort();
  const settings = {
    max_connections: MAX_CONNECTIONS,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: tmpdir(),
  };
  const given = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  let running: { readonly process: ChildProcess; readonly gone: Promise<void> } | undefined;
  const start = async (mode: StartMode = "primary"): Promise<void> => {
    const signal = join(data, "standby.signal");
    if (mode === "standby") writeFileSync(signal, "");
    else rmSync(signal, { force: true });
    const server = spawn(postgres, ["-D", data, "-p", String(port), ...given, ...flags], options);
    const gone = new Promise<void>((resolve) => server.once("close", () => resolve()));
    running = { process: server, gone };
    await ready(server);
  };
  await start();
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
    start,
    async stop(mode = "fast") {
      running?.process.kill(SIGNALS[mode]);
      await running?.gone;
      running = undefined;
    },
  };
}

/** The last lines that a process printed. */
export function tail(child: ChildProcess, line?: (text: string) => void): () => string {
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      printed = (printed + String(chunk)).slice(-4000);
      line?.(printed);
    });
  }
  return () => printed;
}

function ended(child: ChildProcess): Promise<void> {
  const printed = tail(child);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`initdb exited with ${code}\n${printed()}`)),
    );
  });
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const printed = tail(server, (text) => {
      if (/database system is ready to accept (read-only )?connections/.test(text)) resolve();
    });
    server.once("error", reject);
    server.once("close", (code) => reject(new Error(`postgres exited with ${code}\n${printed()}`)));
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address !== null && typeof address === "object" ? resolve(address.port) : reject()));
    });
  });
}
