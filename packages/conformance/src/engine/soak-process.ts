/** A process of a soak, as the suite holds it. It is signalled by its own process id alone. */
import type { ChildProcess } from "node:child_process";
import { startChild } from "./child.ts";
import type { FromPart, Part } from "./soak-role.ts";

export class SoakProcess {
  readonly part: Part;
  /** Resolves once it has connected. Rejects if it failed before. */
  readonly ready: Promise<void>;
  started = false;
  /** The rows that it holds while it waits to be stopped, or undefined. */
  holding: readonly number[] | undefined;
  failure: string | undefined;
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  #killed = false;

  constructor(part: Part) {
    this.part = part;
    this.#process = startChild("soak", [JSON.stringify(part)]);
    this.#exited = new Promise((resolve) => {
      this.#process.once("exit", (code, signal) => {
        if (!this.#killed) this.failure ??= `${part.p} exited with ${code ?? signal}`;
        resolve();
      });
    });
    this.ready = new Promise((resolve, reject) => {
      this.#process.on("message", (message: FromPart) => {
        if (message.kind === "ready") {
          this.started = true;
          resolve();
        } else if (message.kind === "holding") this.holding = message.rowIds;
        else {
          this.failure = message.message;
          reject(new Error(message.message));
        }
      });
      void this.#exited.then(() => reject(new Error(this.failure ?? `${part.p} was killed`)));
    });
    // Whoever waits is told; a process that is killed while it starts has nobody that waits.
    this.ready.catch(() => {});
  }

  goOn(): void {
    this.holding = undefined;
    if (this.#process.connected) this.#process.send("go on", () => {});
  }

  freeze(): void {
    this.#process.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    this.#killed = true;
    this.#process.kill("SIGKILL");
    await this.#exited;
  }
}
