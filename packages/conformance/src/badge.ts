/** The badge of a driver: how far it keeps the contract, as shields.io wants to hear it. No percentages. */
import type { LevelOutcome, Report } from "./report.ts";

/** https://shields.io/badges/endpoint-badge */
export interface Badge {
  readonly schemaVersion: 1;
  readonly label: "dovecote";
  readonly message: string;
  readonly color: string;
  /** Makes the badge red, whatever its place says about colours. */
  readonly isError: boolean;
}

type Levels = Readonly<Record<1 | 2 | 3, LevelOutcome>>;

/** What is said of a driver. The levels build on each other: one that holds above one that does not counts for nothing. */
export function badgeMessage(levels: Levels): string {
  return `contract 1 · ${grade(levels)}`;
}

export function badgeOf({ levels }: Pick<Report, "levels">): Badge {
  return {
    schemaVersion: 1,
    label: "dovecote",
    message: badgeMessage(levels),
    color: { "crash-safe": "brightgreen", concurrent: "green", basic: "yellowgreen", partial: "orange" }[
      grade(levels)
    ],
    isError: levels[1] === "failed",
  };
}

function grade(levels: Levels): "crash-safe" | "concurrent" | "basic" | "partial" {
  if (levels[1] !== "passed") return "partial";
  if (levels[2] !== "passed") return "basic";
  return levels[3] === "passed" ? "crash-safe" : "concurrent";
}
