/** Contender processes, kept from one race to the next: starting them costs more than racing. */
import type { ChildProcess } from "node:child_process";
import type { Json } from "../define-harness.ts";
import { startChild } from "./child.ts";
import type { FromContender, ToContender } from "./protocol.ts";

export class Contender {
  readonly #process: ChildProcess = startChild("contender");

  /** Sends a command and waits for its reply. Rejects if the contender failed or is gone. */
  send(message: ToContender): Promise<FromContender> {
    return new Promise((resolve, reject) => {
      const done = (settle: () => void): void => {
        this.#process.off("message", onMessage);
        this.#process.off("exit", onExit);
        settle();
      };
      const onMessage = (reply: FromContender): void =>
        done(() =>
          reply.kind === "failed"
            ? reject(new Error(`a contender failed: ${reply.message}`))
            : resolve(reply),
        );
      const onExit = (code: number | null, signal: string | null): void =>
        done(() => reject(new Error(`a contender exited with ${code ?? signal}`)));
      this.#process.on("message", onMessage);
      this.#process.on("exit", onExit);
      this.#process.send(message);
    });
  }

  async end(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = new Promise((resolve) => this.#process.once("exit", resolve));
    if (this.#process.connected) this.#process.disconnect();
    await exited;
  }
}

export class ContenderPool {
  /** The URL of its module. */
  readonly harness: string;
  readonly #idle: Contender[] = [];
  readonly #all = new Set<Contender>();

  constructor(harness: string) {
    this.harness = harness;
  }

  /** `count` contenders, connected to a space. */
  async acquire(count: number, locator: Json, mutant: string | null): Promise<readonly Contender[]> {
    const contenders = Array.from({ length: count }, () => this.#idle.pop() ?? this.#start());
    try {
      const message = { kind: "connect", harness: this.harness, locator, mutant } as const;
      await Promise.all(contenders.map((contender) => contender.send(message)));
    } catch (error) {
      await this.discard(contenders);
      throw error;
    }
    return contenders;
  }

  async release(contenders: readonly Contender[]): Promise<void> {
    await Promise.all(contenders.map((contender) => contender.send({ kind: "disconnect" })));
    this.#idle.push(...contenders);
  }

  /** Ends contenders that cannot be trusted any more. */
  async discard(contenders: readonly Contender[]): Promise<void> {
    for (const contender of contenders) this.#all.delete(contender);
    await Promise.all(contenders.map((contender) => contender.end()));
  }

  async close(): Promise<void> {
    await this.discard([...this.#all]);
    this.#idle.length = 0;
  }

  #start(): Contender {
    const contender = new Contender();
    this.#all.add(contender);
    return contender;
  }
}
