/** The processes of the suite. All are started here, so that whoever abandons a case can end them. */
import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

/** For processes that load harnesses in TypeScript. */
export const EXEC_ARGV: readonly string[] = [
  "--experimental-strip-types",
  "--disable-warning=ExperimentalWarning",
];

const alive = new Set<ChildProcess>();

/** Starts `./<name>-child`: its source during development, and compiled when installed. */
export function startChild(name: string, args: readonly string[] = []): ChildProcess {
  const entry = new URL(`./${name}-child${extname(import.meta.url)}`, import.meta.url);
  // What a driver prints in there must not get into the output of the suite, which may be read by a program.
  const child = fork(fileURLToPath(entry), [...args], {
    execArgv: [...EXEC_ARGV],
    stdio: ["ignore", 2, 2, "ipc"],
  });
  alive.add(child);
  child.once("exit", () => alive.delete(child));
  return child;
}

/** Ends every process that the suite has started, also one that is stopped or too busy to listen. */
export function killChildren(): void {
  for (const child of alive) child.kill("SIGKILL");
}
