/** The whole portable API at once, against a model that is small enough to be believed. */
import type { Case } from "../case.ts";
import { compareWithModel } from "../model/run.ts";

export const modelCases: readonly Case[] = [
  {
    id: "MODEL-01",
    level: 1,
    intent: "random sequences of calls are answered, and change the store, as a small model in memory says",
    run: (t) => compareWithModel(t, t.seed),
  },
];
