/** The form of a command: what it does to the model and the store, and how a failure shows it. */
import type { AsyncCommand } from "fast-check";
import type { Model } from "./state.ts";
import { agree, type Store } from "./store.ts";

export type ModelCommand = AsyncCommand<Model, Store>;

export interface CommandParts {
  /** The name, with its arguments as a failure is to show them. */
  readonly text: string;
  /** Whether it can be made at all. Default: always. */
  readonly possible?: (model: Model) => boolean;
  /** Predicts with the model what the store has to answer, and asserts that it does. */
  readonly run: (model: Model, store: Store) => Promise<void>;
}

export function command({ text, possible = () => true, run }: CommandParts): ModelCommand {
  return {
    check: (model) => possible(model),
    async run(model, store) {
      await run(model, store);
      await agree(model, store, text);
    },
    toString: () => text,
  };
}

/** A member of a list that a number of any size picks, counted from the end. */
export function latest<T>(list: readonly T[], place: number): T {
  return list.at(-1 - (place % list.length)) as T;
}

export const anyRow = ({ rows }: Model): boolean => rows.size > 0;
export const anyClaim = ({ claims }: Model): boolean => claims.length > 0;
