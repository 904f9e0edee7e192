/** Broken idempotency keys and inboxes, of any driver that has them. */
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import type {
  BeginKey,
  BeginKeyOutcome,
  Fingerprint,
  InTransaction,
  KeyAddress,
  KeyDriver,
  KeyOutcome,
  KeyProof,
} from "@dovecote/core";
import type { Session } from "../../define-harness.ts";
import { override, overrideKeys } from "../../override.ts";
import { breakingOutbox } from "./breaking.ts";
import { hex, meanwhile, type SemanticMutant } from "./define.ts";

type AnyKeyDriver = KeyDriver<unknown, boolean>;

const DAY_MS = 24 * 3600 * 1000;
const YEAR_MS = 366 * DAY_MS;
/** For how long a mutant waits that waits for somebody. */
const PATIENCE_MS = 10_000;
const LATER_MS = 1000;

const APPLIED: KeyOutcome = { outcome: "applied" };

export const keys: readonly SemanticMutant[] = [
  breakingKeys("time-left-made-up", "KEY-01", /the time left must be/, (driver) => ({
    async begin(request) {
      const outcome = await driver.begin(request);
      return outcome.outcome === "inFlight" ? { ...outcome, remainingMs: DAY_MS } : outcome;
    },
  })),
  breakingKeys("answers-kept-as-text", "KEY-02", /must be byte for byte/, (driver) => ({
    complete: (proof, answer) =>
      driver.complete(
        proof,
        "body" in answer
          ? { ...answer, body: Buffer.from(Buffer.from(answer.body).toString("utf8")) }
          : answer,
      ),
  })),
  breakingKeys("key-read-then-written", "KEY-03", /must be acquired by one of them/, (driver, session) => ({
    async begin(request) {
      const found = await driver.inspect(request);
      await meanwhile(session);
      // What came in between is overwritten.
      if (found === null) await session.faults.ageKeys(YEAR_MS);
      return driver.begin(request);
    },
  })),
  fingerprintsOf("fingerprint-ignored", /must be mismatch, got/, (request, first) => ({
    ...request,
    fingerprint: first,
  })),
  fingerprintsOf("unknown-algorithms-compared", /cannot be compared must be/, (request, first) => ({
    ...request,
    fingerprint: { ...request.fingerprint, algorithm: first.algorithm },
  })),
  breakingOutbox(
    "scopes-joined-without-their-lengths",
    "KEY-05",
    /a key in a scope of its own.* must be acquired/,
    ({ keys: portable }) => ({
      keys: override(portable, {
        begin: ({ scope: { principal, method, path }, ...options }) =>
          portable.begin({
            ...options,
            scope: { principal: null, method: "M", path: `${principal}${method}${path}` },
          }),
      }),
    }),
    { keys: true },
  ),
  breakingKeys("answers-lost-in-transactions", "KEY-06", /must be replay, got inFlight/, () => ({
    completeIn: () => APPLIED,
    completeHeldIn: () => APPLIED,
  })),
  ...(["complete", "renew", "release"] as const).map((method) =>
    withoutToken(method, new RegExp(`a superseded ${method} must be refused .* but it was accepted`)),
  ),
  withoutToken("holdIn", /the rows of a zombie|a zombie.* but it was accepted/),
  withoutToken("completeIn", /the rows of a zombie|a zombie.* but it was accepted/),
  breakingKeys(
    "key-taken-over-by-everybody",
    "KEY-08",
    /must be acquired by one of them/,
    (driver, session) => ({
      async begin(request) {
        const found = await driver.inspect(request);
        if (found?.state !== "free") return driver.begin(request);
        await meanwhile(session);
        await session.faults.ageKeys(DAY_MS);
        const outcome = await driver.begin(request);
        return outcome.outcome === "acquired" ? { ...outcome, attempt: found.attempt + 1 } : outcome;
      },
    }),
  ),
  breakingKeys("renewals-not-made", "KEY-08", /beside a run that is slow must be inFlight/, () => ({
    renew: async (_proof, leaseMs) => ({ outcome: "applied", expiresAt: Date.now() * 1000 + leaseMs * 1000 }),
  })),
  breakingKeys(
    "held-claims-lose-their-lease",
    "KEY-08",
    /completing a held claim must be accepted/,
    (driver) => ({
      completeHeldIn: (tx, proof, answer) => driver.completeIn(tx, proof, answer),
    }),
  ),
  breakingKeys("takeovers-never-refused", "KEY-09", /must be indeterminate, got/, (driver) => ({
    begin: (request) => driver.begin({ ...request, takeover: "rerun" }),
  })),
  breakingKeys("refusal-read-then-answered", "KEY-08", /never both/, (driver, session) => ({
    async begin(request) {
      if (request.takeover === "rerun") return driver.begin(request);
      const found = await driver.inspect(request);
      if (found?.state !== "free") return driver.begin(request);
      await meanwhile(session);
      const again = await driver.inspect(request);
      if (again?.state === "free") return driver.begin(request);
      return { outcome: "indeterminate", since: found.expiresAt ?? 0 };
    },
  })),
  breakingKeys("large-answers-cut", "KEY-10", /1 MiB must come back byte for byte/, (driver) => ({
    complete: (proof, answer) =>
      driver.complete(
        proof,
        "body" in answer ? { ...answer, body: answer.body.subarray(0, 65_536) } : answer,
      ),
  })),
  breakingKeys("release-keeps-the-record", "KEY-11", /a release must leave no record/, () => ({
    release: async () => APPLIED,
  })),
  breakingKeys("sweep-takes-what-is-alive", "KEY-12", /may be swept/, (driver, { faults }) => ({
    async sweep(tenant, limit) {
      await faults.ageKeys(YEAR_MS);
      return driver.sweep(tenant, limit);
    },
  })),
  breakingKeys(
    "answers-kept-until-they-are-swept",
    "KEY-12",
    /after its retention must be acquired/,
    (driver) => ({
      begin: (request) => driver.begin({ ...request, retentionMs: YEAR_MS }),
    }),
  ),
  breakingKeys("no-tombstones", "KEY-13", /must be expired, got acquired/, (driver) => ({
    begin: (request) => driver.begin({ ...request, tombstoneMs: 0 }),
  })),
  breakingKeys("own-claim-not-recognised", "KEY-14", /whose reply was lost must be acquired/, (driver) => {
    const seen = new Set<string>();
    return {
      begin(request) {
        const token = hex(request.token);
        if (!seen.has(token)) {
          seen.add(token);
          return driver.begin(request);
        }
        return driver.begin({ ...request, token: request.token.map((byte) => byte ^ 1) });
      },
    };
  }),
  breakingKeys("begin-waits-for-the-holder", "KEY-15", /must be answered/, (driver) => ({
    async begin(request) {
      const end = performance.now() + PATIENCE_MS;
      const isInFlight = async (): Promise<boolean> => (await driver.inspect(request))?.state === "inFlight";
      while ((await isInFlight()) && performance.now() < end) await turn();
      return driver.begin(request);
    },
  })),
  breakingKeys("marks-not-looked-at", "INBOX-01", /an event must be seen|must have seen/, (driver) => ({
    markIn: (tx, mark) => then(driver.markIn(tx, mark), () => "first"),
  })),
  breakingKeys(
    "one-mark-for-everything",
    "INBOX-01",
    /another (event|consumer) must be the first/,
    (driver) => ({
      markIn: (tx, mark) =>
        driver.markIn(tx, { ...mark, event: new Uint8Array(32).fill(mark.tenant.length) }),
    }),
  ),
  breakingKeys(
    "answers-follow-their-commit",
    "CRASH-05",
    /a kill when committed must be replay/,
    (driver) => ({
      completeHeldIn(_tx, proof, answer) {
        delay(LATER_MS)
          .then(() => driver.complete(proof, answer))
          .catch(() => {});
        return APPLIED;
      },
    }),
  ),
  breakingOutbox(
    "keys-that-are-not-there",
    "KEY-01",
    /begin without keys must be refused/,
    ({ keys: portable }) => ({
      keys: override(portable, { begin: async () => ({ outcome: "mismatch" }) }),
    }),
    { keys: false },
  ),
];

/** A driver with some of the methods of its keys replaced. */
function breakingKeys(
  name: string,
  breaks: string,
  because: RegExp,
  methods: (driver: AnyKeyDriver, session: Session) => Partial<AnyKeyDriver>,
): SemanticMutant {
  return {
    name,
    breaks,
    because,
    on: { keys: true },
    wrap: (session) => overrideKeys(session.driver, (driver) => methods(driver, session)),
  };
}

/** Fingerprints that are compared in a wrong way. The first one of a key is remembered across sessions. */
function fingerprintsOf(
  name: string,
  because: RegExp,
  change: (request: BeginKey, first: Fingerprint) => BeginKey,
): SemanticMutant {
  const remembered = new Map<string, Fingerprint>();
  return breakingKeys(name, "KEY-04", because, (driver) => ({
    begin(request): Promise<BeginKeyOutcome> {
      const place = placeOf(request);
      const first = remembered.get(place) ?? request.fingerprint;
      remembered.set(place, first);
      return driver.begin(change(request, first));
    },
  }));
}

/** The token is not compared: as if every caller had the one that is stored. */
function withoutToken(
  method: "complete" | "renew" | "release" | "holdIn" | "completeIn",
  because: RegExp,
): SemanticMutant {
  const stored = new Map<string, Uint8Array>();
  const forged = (proof: KeyProof): KeyProof => ({
    ...proof,
    token: stored.get(placeOf(proof)) ?? proof.token,
  });
  return breakingKeys(`key-${method}-without-token`, "KEY-07", because, (driver) => {
    const broken: Partial<AnyKeyDriver> = {
      complete: (proof, answer) => driver.complete(forged(proof), answer),
      renew: (proof, leaseMs) => driver.renew(forged(proof), leaseMs),
      release: (proof) => driver.release(forged(proof)),
      holdIn: (tx, proof) => driver.holdIn(tx, forged(proof)),
      completeIn: (tx, proof, answer) => driver.completeIn(tx, forged(proof), answer),
    };
    return {
      async begin(request) {
        const outcome = await driver.begin(request);
        if (outcome.outcome === "acquired") stored.set(placeOf(request), request.token);
        return outcome;
      },
      [method]: broken[method],
      // Whoever was let in by somebody else's token goes on with it.
      completeHeldIn: (tx, proof, answer) =>
        driver.completeHeldIn(tx, method === "holdIn" ? forged(proof) : proof, answer),
    };
  });
}

function placeOf({ scope, key }: KeyAddress): string {
  return `${hex(scope)} ${hex(key)}`;
}

function then<A, B>(value: InTransaction<boolean, A>, next: (value: A) => B): InTransaction<boolean, B> {
  return value instanceof Promise ? value.then(next) : next(value as A);
}
