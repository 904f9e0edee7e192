/** The messages between the suite and a contender. */
import type { Json } from "../define-harness.ts";
import type { ActorName } from "./actors.ts";

export type ToContender =
  | {
      readonly kind: "connect";
      readonly harness: string;
      readonly locator: Json;
      readonly mutant: string | null;
    }
  /** Acts when the monotonic clock, which processes of one machine share, reaches `at` nanoseconds. */
  | { readonly kind: "act"; readonly actor: ActorName; readonly input: unknown; readonly at: string }
  | { readonly kind: "disconnect" };

export type FromContender =
  | { readonly kind: "ready" }
  /** `late` when the command arrived after the moment it named. */
  | {
      readonly kind: "done";
      readonly answer: unknown;
      readonly late: boolean;
      readonly from: string;
      readonly to: string;
    }
  | { readonly kind: "failed"; readonly message: string };
