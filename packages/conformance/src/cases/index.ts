/** Every case of the suite, in the order of SPEC.md. */
import type { Case } from "../case.ts";
import { fenceCases } from "./fence.ts";

export const cases: readonly Case[] = [...fenceCases];
