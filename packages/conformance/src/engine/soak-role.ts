/** What the processes of a soak share. */
import type { Peer } from "../case.ts";
import type { Json } from "../define-harness.ts";
import type { Recorder } from "../history/record.ts";
import type { Random } from "./soak-random.ts";

export const TENANTS: readonly string[] = ["default", "acme"];

/** How an event is named in a history. */
export function idOf(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}

/** What a process is told when it starts. */
export interface Part {
  readonly role: "producer" | "worker" | "payer";
  /** Its name, in the history and as a worker. */
  readonly p: string;
  readonly seed: number;
  /** Where it writes its history. */
  readonly file: string;
  readonly harness: string;
  readonly locator: Json;
  readonly mutant: string | null;
}

export interface Stage extends Peer {
  readonly p: string;
  readonly recorder: Recorder;
  readonly random: Random;
  /** Says which rows it holds, and waits to be sent on: by then it was stopped, and its leases have ended. */
  stalled(rowIds: readonly number[]): Promise<void>;
}

export type FromPart =
  | { readonly kind: "ready" }
  | { readonly kind: "holding"; readonly rowIds: readonly number[] }
  | { readonly kind: "failed"; readonly message: string };
