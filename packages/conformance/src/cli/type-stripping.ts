/** Before 22.18 Node runs TypeScript only if it is told to when it starts. */
import { spawn } from "node:child_process";
import { EXEC_ARGV } from "../engine/child.ts";

export function stripsTypes(): boolean {
  return Boolean(process.features.typescript) || EXEC_ARGV.every((flag) => process.execArgv.includes(flag));
}

/** Runs this command once more, in a process that was told to; answers its exit code. */
export function runAgain(): Promise<number> {
  const args = [...process.execArgv, ...EXEC_ARGV, ...process.argv.slice(1)];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  // A terminal tells both of them; a supervisor tells this one only.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? 1));
  });
}
