/** Server processes, as whoever starts and kills them sees them. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

/** Where a server can stall: half of a file was written; or all is committed, and nothing answered. */
export type Stage = "receiving" | "committed";

/** `peak` is the most memory that the process had so far (RSS), in bytes. */
export type Said =
  | { readonly stage: "listening"; readonly port: number; readonly peak: number }
  | { readonly stage: Stage; readonly peak: number };

export interface BookServer {
  readonly url: string;
  /** When it listened. */
  readonly peak: number;
  /** Resolves when it stalls. */
  readonly stalled: Promise<{ readonly peak: number }>;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** @param stall where it stalls, and after how many bytes of a file. */
export async function startServer(
  folder: string,
  stall?: { readonly at: Stage; readonly bytes?: number },
): Promise<BookServer> {
  const entry = fileURLToPath(new URL(`./server-child${extname(import.meta.url)}`, import.meta.url));
  const child = fork(entry, [folder, stall?.at ?? "", String(stall?.bytes ?? 0)], {
    execArgv: ["--disable-warning=ExperimentalWarning"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const exit = once(child, "exit");
  const hear = async (): Promise<Said> => {
    const [said] = await Promise.race([
      once(child, "message"),
      exit.then(() => Promise.reject(new Error("a server ended early"))),
    ]);
    return said as Said;
  };
  const listening = await hear();
  if (listening.stage !== "listening") throw new Error("a server has to listen first");
  const stalled = hear();
  // One that is never asked for may never come.
  stalled.catch(() => {});
  return {
    url: `http://127.0.0.1:${listening.port}/books`,
    peak: listening.peak,
    stalled,
    async kill() {
      child.kill("SIGKILL");
      await exit;
    },
    async stop() {
      child.disconnect();
      await exit;
    },
  };
}
