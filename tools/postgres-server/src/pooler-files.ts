/** The files of PgBouncer: what is installed, or Debian's package unpacked beside its settings, where apt can fetch it. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface PoolerFiles {
  /** Of this pooler; removed when it has ended. */
  readonly folder: string;
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
}

const PACKAGES = ["pgbouncer", "libevent-2.1-7", "libc-ares2"];
const FETCH_TIMEOUT_MS = 120_000;

/** @throws if there is none, and none can be fetched: the message says why. */
export function preparePooler(): PoolerFiles {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-pooler-"));
  chmodSync(folder, 0o755); // PgBouncer refuses to run as root: its user has to pass through it
  if (runs("pgbouncer", process.env)) return { folder, command: "pgbouncer", env: process.env };
  const unpacked = join(folder, "package");
  mkdirSync(unpacked);
  let fetched = run("apt-get", ["download", ...PACKAGES], unpacked);
  if (fetched.status !== 0) {
    run("apt-get", ["update"], unpacked); // a fresh image has no lists
    fetched = run("apt-get", ["download", ...PACKAGES], unpacked);
  }
  if (fetched.status !== 0) {
    throw new Error(`PgBouncer is not installed, and apt cannot fetch it: ${reason(fetched)}`);
  }
  for (const file of readdirSync(unpacked)) run("dpkg", ["-x", file, unpacked], unpacked);
  const libraries = readdirSync(join(unpacked, "usr", "lib")).map((name) =>
    join(unpacked, "usr", "lib", name),
  );
  const env = { ...process.env, LD_LIBRARY_PATH: libraries.join(":") };
  const command = join(unpacked, "usr", "sbin", "pgbouncer");
  if (!runs(command, env)) throw new Error("PgBouncer was fetched, and does not start here");
  return { folder, command, env };
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
