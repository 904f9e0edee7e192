/** What a case of the suite is: data with an id of the contract, and a function that asserts. */
import type { Capabilities, Dovecote, DovecoteOptions } from "@dovecote/core";
import type { AnyDriver, ConnectOptions, Json, Session } from "./define-harness.ts";
import type { ActorName } from "./engine/actors.ts";
import type { RacePlan, RaceReport } from "./engine/race.ts";
import type { ScriptInput, ScriptName } from "./engine/scripts.ts";
import type { SoakPlan } from "./engine/soak.ts";
import type { SoakReport } from "./engine/soak-report.ts";
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
  /** New in the suite: it is run and shown, and does not decide whether its level holds. */
  readonly provisional?: true;
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
  /**
   * One more peer on the same space, in this process, with connections of its own. Closed after the case. A hostile one
   * has settings that must change nothing, see {@link ConnectOptions}.
   */
  connect(options?: DovecoteOptions, session?: Pick<ConnectOptions, "hostile">): Promise<Peer>;
  /** The portable API once more, with other options: over the first session's driver, or over one in front of it. */
  reopen(options: DovecoteOptions, driver?: AnyDriver): Outbox;
  /** Real processes that do one thing at the same moment, round after round. */
  race<Name extends ActorName>(plan: RacePlan<Name>): Promise<RaceReport>;
  /** A process that follows a script, to be killed or frozen on its way. Killed after the case at the latest. */
  victim<Name extends ScriptName>(script: Name, input: ScriptInput<Name>): Victim<Name>;
  /** How long a soak is to take, as whoever runs the suite wants it. */
  readonly soakMs: number;
  /** Processes that run freely, and are killed and stopped at random, with everything they do on record. */
  soak(plan: SoakPlan): Promise<SoakReport>;
}
