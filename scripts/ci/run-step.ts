import { spawn } from "node:child_process";
import type { Ending } from "./count.ts";

export interface Command {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly timeoutMs: number;
}

/** Runs a command, shows its output as it comes, and keeps it. One that overstays is ended with all its children. */
export function runCommand({ command, env, cwd, timeoutMs }: Command): Promise<Ending & { output: string }> {
  const [file, ...args] = command;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let overdue = false;
    // Its own process group: a test runner's workers and their children end with it.
    const child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const signalGroup = (signal: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal);
      } catch {
        // The group is gone already.
      }
    };
    const timer = setTimeout(() => {
      overdue = true;
      signalGroup("SIGKILL");
    }, timeoutMs);
    child.stdout.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      process.stdout.write(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => process.stderr.write(chunk));
    const finish = (ending: Ending): void => {
      clearTimeout(timer);
      resolve({ ...ending, output: Buffer.concat(chunks).toString("utf8") });
    };
    child.on("error", (error) => finish({ exitCode: null, reason: error.message }));
    child.on("exit", (exitCode, signal) => {
      // What the step left running would hold its pipes open, and with them this run: "close" may never come.
      const drained = setTimeout(() => signalGroup("SIGKILL"), 2_000);
      child.on("close", () => {
        clearTimeout(drained);
        if (overdue)
          finish({ exitCode: null, reason: `still running after ${Math.round(timeoutMs / 1000)} s` });
        else if (signal) finish({ exitCode: null, reason: `ended by ${signal}` });
        else finish({ exitCode });
      });
    });
  });
}
