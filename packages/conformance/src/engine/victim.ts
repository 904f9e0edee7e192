/**
 * The crash engine. A victim is a process that follows a script and stops at its checkpoints; the suite kills it there,
 * or in the middle of what it does next, freezes it and lets it go on. It is ended by its own process id alone.
 */
import type { ChildProcess } from "node:child_process";
import type { Json } from "../define-harness.ts";
import { startChild } from "./child.ts";
import type { ScriptAnswer, ScriptInput, ScriptName } from "./scripts.ts";

/** What a victim is told when it starts. */
export interface Sentence {
  readonly harness: string;
  readonly locator: Json;
  readonly mutant: string | null;
  readonly script: ScriptName;
  readonly input: unknown;
}

export type FromVictim =
  | { readonly kind: "checkpoint"; readonly name: string; readonly report: unknown }
  | { readonly kind: "progress"; readonly report: unknown }
  | { readonly kind: "done"; readonly answer: unknown }
  | { readonly kind: "failed"; readonly message: string };

export class Victim<Name extends ScriptName> {
  readonly #process: ChildProcess;
  readonly #heard: FromVictim[] = [];
  readonly #waiting = new Set<() => void>();
  #ended = false;

  constructor(sentence: Sentence & { readonly script: Name; readonly input: ScriptInput<Name> }) {
    this.#process = startChild("victim", [JSON.stringify(sentence)]);
    this.#process.on("message", (message: FromVictim) => {
      this.#heard.push(message);
      this.#wake();
    });
    this.#process.once("exit", () => {
      this.#ended = true;
      this.#wake();
    });
  }

  /** Waits until the victim stands at a checkpoint; answers what it reports there. */
  async reached(name: string): Promise<unknown> {
    const found = await this.#hear((each) => each.kind === "checkpoint" && each.name === name, name);
    return found.kind === "checkpoint" ? found.report : null;
  }

  /** Waits until the victim has reported progress that often, or has nothing left to do; answers its reports so far. */
  async progressed(times: number): Promise<readonly unknown[]> {
    const reports = (): readonly unknown[] =>
      this.#heard.flatMap((each) => (each.kind === "progress" ? [each.report] : []));
    const over = (): boolean =>
      this.#ended || this.#heard.some(({ kind }) => kind === "done" || kind === "failed");
    while (reports().length < times && !over()) await this.#next();
    return reports();
  }

  /** Lets it go on from a checkpoint. */
  proceed(): void {
    this.#process.send("proceed");
  }

  async done(): Promise<ScriptAnswer<Name>> {
    const found = await this.#hear((each) => each.kind === "done", "the end of its script");
    return (found as { readonly answer: ScriptAnswer<Name> }).answer;
  }

  freeze(): void {
    this.#process.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.gone();
  }

  /** Waits for it to end, by whatever hand. */
  async gone(): Promise<void> {
    while (!this.#ended) await this.#next();
  }

  async #hear(wanted: (message: FromVictim) => boolean, what: string): Promise<FromVictim> {
    for (;;) {
      const failed = this.#heard.find((each) => each.kind === "failed");
      if (failed?.kind === "failed") throw new Error(`the victim failed: ${failed.message}`);
      const found = this.#heard.find(wanted);
      if (found !== undefined) return found;
      if (this.#ended) throw new Error(`the victim ended before ${what}`);
      await this.#next();
    }
  }

  #next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
