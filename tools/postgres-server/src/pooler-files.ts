/** The files of PgBouncer: what is installed, or Debian's package unpacked beside its settings, where apt can fetch it. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface PoolerFiles {
  /** Of this pooler; removed when it has ended. */
  readonly folder: string;
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
}

/** By the names of Debian 12, and by those that releases since have. */
const PACKAGES = [
  ["pgbouncer", "libevent-2.1-7", "libc-ares2"],
  ["pgbouncer", "libevent-2.1-7t64", "libcares2"],
] as const;
const FETCH_TIMEOUT_MS = 120_000;

/** There is none, and none can be fetched. */
export class NoPooler extends Error {}

/** @throws NoPooler */
export function preparePooler(): PoolerFiles {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-pooler-"));
  try {
    chmodSync(folder, 0o755); // PgBouncer refuses to run as root: its user has to pass through it
    if (runs("pgbouncer", process.env)) return { folder, command: "pgbouncer", env: process.env };
    return { folder, ...unpack(join(folder, "package")) };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

function unpack(folder: string): Pick<PoolerFiles, "command" | "env"> {
  mkdirSync(folder);
  const fetched = fetchPackages(folder);
  if (fetched !== undefined) {
    throw new NoPooler(`PgBouncer is not installed, and apt cannot fetch it: ${fetched}`);
  }
  for (const file of readdirSync(folder)) run("dpkg", ["-x", file, folder], folder);
  const libraries = readdirSync(join(folder, "usr", "lib")).map((name) => join(folder, "usr", "lib", name));
  const env = { ...process.env, LD_LIBRARY_PATH: libraries.join(":") };
  const command = join(folder, "usr", "sbin", "pgbouncer");
  if (!runs(command, env)) throw new NoPooler("PgBouncer was fetched, and does not start on this system");
  return { command, env };
}

/** Answers why it could not be done. */
function fetchPackages(folder: string): string | undefined {
  let failure: string | undefined;
  for (const refresh of [false, true]) {
    if (refresh) run("apt-get", ["update"], folder); // a fresh image has no lists
    for (const packages of PACKAGES) {
      const fetched = run("apt-get", ["download", ...packages], folder);
      if (fetched.status === 0) return undefined;
      failure = reason(fetched);
    }
  }
  return failure;
}

function run(command: string, args: readonly string[], cwd: string): ReturnType<typeof spawnSync> {
  return spawnSync(command, [...args], { cwd, timeout: FETCH_TIMEOUT_MS, encoding: "utf8" });
}

function runs(command: string, env: NodeJS.ProcessEnv): boolean {
  return spawnSync(command, ["--version"], { env, stdio: "ignore" }).status === 0;
}

function reason({ error, stderr }: ReturnType<typeof spawnSync>): string {
  return error?.message ?? String(stderr).trim().split("\n").at(-1) ?? "";
}
