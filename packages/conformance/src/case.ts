/** What a case of the suite is: data with an id of the contract, and a function that asserts. */
import type { Capabilities, Dovecote, DovecoteOptions } from "@dovecote/core";
import type { Json, Session } from "./define-harness.ts";
import type { ActorName } from "./engine/actors.ts";
import type { RacePlan, RaceReport } from "./engine/race.ts";
import type { ScriptInput, ScriptName } from "./engine/scripts.ts";
import type { Victim } from "./engine/victim.ts";

/** 1: one session. 2: several sessions and processes. 3: crashes and faults. */
export type Level = 1 | 2 | 3;

export interface Case {
  /** An id of SPEC.md; one id may have several cases. */
  readonly id: string;
  readonly level: Level;
  /** What is guaranteed, as the title of the test. */
  readonly intent: string;
  /** `false`: the space is handed over without a schema. Default: migrated. */
  readonly migrate?: false;
  run(t: CaseContext): Promise<void>;
}

/** The portable API over any driver. Transaction calls may answer synchronously: always await them. */
export type Outbox = Dovecote<unknown, boolean>;

/** A session and the portable API over its driver. */
export interface Peer {
  readonly session: Session;
  readonly outbox: Outbox;
}

/** What a case works with: a fresh space, and a first peer on it. */
export interface CaseContext extends Peer {
  readonly capabilities: Capabilities;
  readonly locator: Json;
  /** Whatever is random in a case is made of this number, so that a failure can be repeated. */
  readonly seed: number;
  /** One more peer on the same space, in this process, with connections of its own. Closed after the case. */
  connect(options?: DovecoteOptions): Promise<Peer>;
  /** The portable API over the first session's driver once more, with other options. */
  reopen(options: DovecoteOptions): Outbox;
  /** Real processes that do one thing at the same moment, round after round. */
  race<Name extends ActorName>(plan: RacePlan<Name>): Promise<RaceReport>;
  /** A process that follows a script, to be killed or frozen on its way. Killed after the case at the latest. */
  victim<Name extends ScriptName>(script: Name, input: ScriptInput<Name>): Victim<Name>;
}
