/** The portable API of idempotency keys: validates, completes, draws tokens, and turns outcomes into what people handle. */
import { checkOptions, checkWhole, invalid, orDefault } from "../arguments.ts";
import { BOUNDS } from "../bounds.ts";
import type { InTransaction } from "../driver.ts";
import { DovecoteError, isDovecoteError } from "../errors.ts";
import { toHex } from "../hex.ts";
import { after } from "../in-transaction.ts";
import { toDate } from "../micros.ts";
import { ClaimToken, drawTokens } from "../token.ts";
import type * as api from "./api.ts";
import { type KeyClaim, type KeyClaimRef, toKeyProof } from "./claim.ts";
import type {
  Answer,
  BeginKey,
  BeginKeyOutcome,
  KeyAddress,
  KeyDriver,
  KeyOutcome,
  KeyProof,
  KeyRecord,
} from "./driver.ts";
import { checkFingerprint } from "./fingerprint.ts";
import { type KeyResponse, toAnswer, toRecorded, type UnreplayableResponse } from "./response.ts";
import { type RunOutcome, run } from "./run.ts";
import { keyDigests, principalDigest } from "./scope.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const DEFAULTS = { leaseMs: 30_000, retentionMs: DAY_MS, tombstoneMs: 7 * DAY_MS } as const;
/** What is said when only the row is held: nobody knows how long its holder's transaction takes. */
const HELD_RETRY_MS = 1000;
/** A reply that was lost is asked for again: the token tells whether it was ours (KEY-14). */
const BEGIN_ATTEMPTS = 3;

/** What keys need of a store. */
export interface KeyStore<Tx, Sync extends boolean, Own extends Tx> {
  readonly transaction: <T>(fn: (tx: Own) => T) => Promise<Awaited<T>>;
  readonly driver: () => KeyDriver<Tx, Sync>;
  readonly tenant: string;
  readonly secret: Uint8Array | undefined;
  readonly maxAnswerBytes: number;
  readonly randomBytes: Parameters<typeof drawTokens>[0];
  readonly inTransaction: <T>(call: () => InTransaction<Sync, T>) => InTransaction<Sync, T>;
}

export class Keys<Tx, Sync extends boolean, Own extends Tx> implements api.Keys<Tx, Sync, Own> {
  readonly #store: KeyStore<Tx, Sync, Own>;

  constructor(store: KeyStore<Tx, Sync, Own>) {
    this.#store = store;
  }

  async begin(given: api.BeginOptions): Promise<api.Begun> {
    const request = this.#toRequest(given);
    const outcome = await this.#begin(request);
    return outcome.outcome === "acquired"
      ? { outcome: "acquired", claim: toClaim(request, outcome) }
      : toBegun(outcome);
  }

  run(options: unknown, handler: unknown): Promise<RunOutcome> {
    return run({ keys: this, transaction: this.#store.transaction }, options, handler);
  }

  async #begin(request: BeginKey): Promise<BeginKeyOutcome> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#store.driver().begin(request);
      } catch (error) {
        const again = isDovecoteError(error) && error.code === "CONNECTION_LOST" && attempt < BEGIN_ATTEMPTS;
        if (!again) throw error;
      }
    }
  }

  hold(tx: Tx, claim: KeyClaimRef): InTransaction<Sync, api.HeldKey<Sync>> {
    const { driver, tenant, maxAnswerBytes, inTransaction } = this.#store;
    return inTransaction<api.HeldKey<Sync>>(() => {
      const proof = toKeyProof(claim, tenant);
      return after(driver().holdIn(tx, proof), (outcome) => {
        assertApplied(outcome, "hold");
        return {
          complete: (response: KeyResponse | UnreplayableResponse) =>
            inTransaction<void>(() => {
              const answer = toAnswer(response, maxAnswerBytes);
              const completed = ended(() => driver().completeHeldIn(tx, proof, answer));
              return after(completed, (done) => assertApplied(done, "complete"));
            }),
        };
      });
    });
  }

  complete(claim: KeyClaimRef, response: KeyResponse | UnreplayableResponse): Promise<void>;
  complete(
    claim: KeyClaimRef,
    response: KeyResponse | UnreplayableResponse,
    tx: Tx,
  ): InTransaction<Sync, void>;
  complete(
    claim: KeyClaimRef,
    response: KeyResponse | UnreplayableResponse,
    ...given: readonly [tx?: Tx]
  ): Promise<void> | InTransaction<Sync, void> {
    const { driver, tenant, maxAnswerBytes, inTransaction } = this.#store;
    const checked = (): readonly [KeyProof, Answer] => [
      toKeyProof(claim, tenant),
      toAnswer(response, maxAnswerBytes),
    ];
    // A transaction that is missing by mistake is no wish to commit alone.
    if (given.length === 0) {
      return (async () => assertApplied(await driver().complete(...checked()), "complete"))();
    }
    return inTransaction<void>(() =>
      after(driver().completeIn(given[0] as Tx, ...checked()), (outcome) =>
        assertApplied(outcome, "complete"),
      ),
    );
  }

  async renew(claim: KeyClaimRef, given?: api.RenewKeyOptions): Promise<{ readonly expiresAt: Date }> {
    const { driver, tenant } = this.#store;
    const proof = toKeyProof(claim, tenant);
    const { leaseMs } = checkOptions(given, ["leaseMs"], "options");
    const outcome = await driver().renew(
      proof,
      checkWhole(orDefault(leaseMs, DEFAULTS.leaseMs), BOUNDS.leaseMs, "options.leaseMs"),
    );
    if (outcome.outcome !== "applied") throw refused(outcome, "renew");
    return { expiresAt: toDate(outcome.expiresAt) };
  }

  async release(claim: KeyClaimRef): Promise<void> {
    const { driver, tenant } = this.#store;
    assertApplied(await driver().release(toKeyProof(claim, tenant)), "release");
  }

  async resolve(given: api.KeyName, to: "completed" | "released"): Promise<void> {
    const address = this.#toAddress(given);
    if (to !== "completed" && to !== "released") throw invalid("to", '"completed" or "released"', to);
    assertApplied(await this.#store.driver().resolve(address, to), "resolve");
  }

  async inspect(given: api.KeyName): Promise<api.InspectKeyOutcome> {
    const record = await this.#store.driver().inspect(this.#toAddress(given));
    return record === null ? { outcome: "notFound" } : { outcome: "found", record: toEntry(record) };
  }

  async list(given: api.ListKeysOptions): Promise<readonly api.KeyEntry[]> {
    const { stuck, limit } = checkOptions(given, ["stuck", "limit"], "options");
    if (stuck !== true) throw invalid("options.stuck", "true", stuck);
    const most = checkWhole(orDefault(limit, 100), BOUNDS.limit, "options.limit");
    return (await this.#store.driver().listStuck(this.#store.tenant, most)).map(toEntry);
  }

  async sweep(given?: api.SweepOptions): Promise<api.SweepReport> {
    const { limit } = checkOptions(given, ["limit"], "options");
    const most = checkWhole(orDefault(limit, BOUNDS.limit.max), BOUNDS.limit, "options.limit");
    const swept = await this.#store.driver().sweep(this.#store.tenant, most);
    return { swept, more: swept === most };
  }

  async forget(given: api.ForgetOptions): Promise<api.ForgetReport> {
    const { tenant, secret, driver } = this.#store;
    const { principal, limit } = checkOptions(given, ["principal", "limit"], "options");
    const most = checkWhole(orDefault(limit, BOUNDS.limit.max), BOUNDS.limit, "options.limit");
    const digest = principalDigest(tenant, principal, secret);
    const forgotten = await driver().forget(tenant, digest, most);
    return { forgotten, more: forgotten === most };
  }

  #toRequest(given: unknown): BeginKey {
    const { randomBytes } = this.#store;
    const members = ["fingerprint", "leaseMs", "takeover", "retentionMs", "tombstoneMs"];
    const { address, rest } = this.#parsed(given, members);
    const { takeover } = rest;
    if (takeover !== "rerun" && takeover !== "refuse") {
      throw invalid("options.takeover", '"rerun" or "refuse"', takeover);
    }
    const whole = (name: keyof typeof DEFAULTS): number =>
      checkWhole(orDefault(rest[name], DEFAULTS[name]), BOUNDS[name], `options.${name}`);
    const request = {
      ...address,
      fingerprint: checkFingerprint(rest.fingerprint, "options.fingerprint"),
      leaseMs: whole("leaseMs"),
      takeover,
      retentionMs: whole("retentionMs"),
      tombstoneMs: whole("tombstoneMs"),
    } as const;
    const [token] = drawTokens(randomBytes, 1);
    if (token === undefined) throw new DovecoteError("ENTROPY_UNAVAILABLE", "there are no random bytes");
    return { ...request, token };
  }

  #toAddress(given: unknown): KeyAddress {
    return this.#parsed(given, []).address;
  }

  #parsed(given: unknown, members: readonly string[]) {
    const { tenant, secret } = this.#store;
    if (given === undefined) throw invalid("options", "{ scope, key }", given);
    const { scope, key, ...rest } = checkOptions(given, ["scope", "key", ...members], "options");
    return { address: { tenant, ...keyDigests(tenant, scope, key, secret) }, rest };
  }
}

/** A handle on which a claim was held, and that has no transaction any more, had one (TX_CLOSED). */
function ended<Sync extends boolean, T>(call: () => InTransaction<Sync, T>): InTransaction<Sync, T> {
  const closed = (error: unknown): never => {
    if (!isDovecoteError(error, "TX_REQUIRED")) throw error;
    throw new DovecoteError("TX_CLOSED", "the transaction that held the key has ended", { cause: error });
  };
  try {
    const answer = call();
    return (answer instanceof Promise ? answer.catch(closed) : answer) as InTransaction<Sync, T>;
  } catch (error) {
    return closed(error);
  }
}

function toClaim(
  { tenant, scope, key, token }: BeginKey,
  { attempt, takenOver, expiresAt }: Extract<BeginKeyOutcome, { readonly outcome: "acquired" }>,
): KeyClaim {
  return {
    ...{ tenant, attempt, takenOver },
    scopeDigest: toHex(scope),
    keyDigest: toHex(key),
    token: new ClaimToken(token),
    expiresAt: toDate(expiresAt),
  };
}

function toBegun(outcome: Exclude<BeginKeyOutcome, { readonly outcome: "acquired" }>): api.Begun {
  switch (outcome.outcome) {
    case "replay":
      return {
        outcome: "replay",
        response: toRecorded(outcome.answer),
        completedAt: toDate(outcome.completedAt),
      };
    case "unreplayable": {
      const { reason, status } = outcome.answer;
      const completedAt = toDate(outcome.completedAt);
      return { outcome: "unreplayable", reason, ...(status !== null && { status }), completedAt };
    }
    case "inFlight":
      return { outcome: "inFlight", retryAfterMs: outcome.remainingMs ?? HELD_RETRY_MS };
    case "mismatch":
      return { outcome: "mismatch" };
    case "indeterminate":
      return { outcome: "indeterminate", since: toDate(outcome.since) };
    case "expired":
      return { outcome: "expired", completedAt: toDate(outcome.completedAt) };
  }
}

function toEntry({
  scope,
  key,
  acquiredAt,
  expiresAt,
  completedAt,
  answer,
  ...record
}: KeyRecord): api.KeyEntry {
  return {
    ...record,
    scopeDigest: toHex(scope),
    keyDigest: toHex(key),
    acquiredAt: toDate(acquiredAt),
    ...(expiresAt !== null && { expiresAt: toDate(expiresAt) }),
    ...(completedAt !== null && { completedAt: toDate(completedAt) }),
    ...(answer !== null && answer.status !== null && { status: answer.status }),
    ...(answer !== null && "reason" in answer && { unreplayable: answer.reason }),
  };
}

function assertApplied(outcome: KeyOutcome, doing: string): void {
  if (outcome.outcome !== "applied") throw refused(outcome, doing);
}

function refused(
  { outcome }: { readonly outcome: Exclude<KeyOutcome["outcome"], "applied"> },
  doing: string,
): DovecoteError {
  switch (outcome) {
    case "notFound":
      return new DovecoteError("NOT_FOUND", `${doing}: there is no such key`);
    case "illegalTransition":
      return new DovecoteError("ILLEGAL_TRANSITION", `${doing}: the key is in another state`);
    case "lostClaim":
      return new DovecoteError("LOST_CLAIM", `${doing}: the claim expired, or was taken over`);
  }
}
