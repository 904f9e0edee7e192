/** Histories of a correct store have to be clean, and each way of spoiling one has to be found. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkHistory, type Rule } from "../src/history/check.ts";
import type { FinalRow, History, Operation } from "../src/history/operation.ts";

const MS = 1e6;
const LEASE_MS = 1000;

type Ending = "ack" | "retry" | "release" | "quarantine" | "expiry" | "hand";

/** What happens to one claim. */
const step = fc.record({
  ending: fc.constantFrom<Ending>("ack", "ack", "retry", "release", "quarantine", "expiry", "hand"),
  renewed: fc.boolean(),
  /** The process dies in this call, after it took effect or before. */
  killed: fc.constantFrom("no", "no", "no", "before", "after"),
  /** A call of the process that lost the claim, when the next one holds it. */
  zombie: fc.boolean(),
  redriven: fc.boolean(),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const life = fc.record({
  enqueue: fc.constantFrom("ok", "ok", "ok", "info", "undone"),
  twice: fc.boolean(),
  steps: fc.array(step, { maxLength: 6 }),
});
type Life = typeof life extends fc.Arbitrary<infer T> ? T : never;

interface Claim {
  readonly p: string;
  readonly attempt: number;
  readonly token: string;
}

/** One event in a correct store. Calls take 1 ms and follow one another, but for those of zombies. */
class Simulation {
  readonly operations: Operation[] = [];
  readonly #event: Pick<FinalRow, "id" | "rowId">;
  #now = 0;
  #attempts = 0;
  #state: FinalRow["state"] = "pending";

  constructor(number: number) {
    this.#event = { id: `default/event-${number}`, rowId: number };
  }

  run({ enqueue, twice, steps }: Life): readonly FinalRow[] {
    if (enqueue === "undone") {
      this.#do("producer", "enqueue", { type: "fail", answer: "rolledBack" });
      return [];
    }
    const unknown = enqueue === "info" ? ({ type: "info", t1: Number.POSITIVE_INFINITY } as const) : {};
    this.#do("producer", "enqueue", { answer: "enqueued", ...unknown });
    if (twice) this.#do("other", "enqueue", { answer: "alreadyEnqueued" });
    let zombie: Claim | undefined;
    for (const each of steps) {
      const claim = this.#claim();
      if (zombie !== undefined)
        this.#do(zombie.p, "ack", { ...proof(zombie), type: "fail", answer: "lostClaim" });
      zombie = this.#live(claim, each) && each.zombie ? claim : undefined;
      if (this.#state === "delivered" || this.#state === "quarantined") break;
    }
    if (this.#state === "pending" || this.#state === "claimed") {
      if (this.#state === "claimed") this.#do("suite", "expire");
      const claim = this.#claim();
      this.#end(claim, "ack", "no");
    }
    return [{ ...this.#event, state: this.#state, attempts: this.#attempts }];
  }

  /** Answers whether the lease ended under the claim. */
  #live(claim: Claim, { ending, renewed, killed, redriven }: Step): boolean {
    if (renewed) this.#do(claim.p, "renew", { ...proof(claim), leaseMs: LEASE_MS });
    if (ending === "expiry") this.#now += (LEASE_MS + 2) * MS;
    else if (ending === "hand") this.#do("suite", "expire");
    else {
      this.#end(claim, ending, killed);
      if (killed === "before") this.#do("suite", "expire");
      if (this.#state === "quarantined" && redriven) {
        this.#do(claim.p, "redrive");
        this.#state = "pending";
      }
      return killed === "before";
    }
    return true;
  }

  #claim(): Claim {
    this.#attempts += 1;
    const attempt = this.#attempts;
    const claim = { p: `worker-${attempt}`, attempt, token: `${this.#event.id}/${attempt}` };
    this.#do(claim.p, "claim", { ...proof(claim), leaseMs: LEASE_MS });
    this.#state = "claimed";
    return claim;
  }

  #end(claim: Claim, ending: "ack" | "retry" | "release" | "quarantine", killed: Step["killed"]): void {
    const unknown = killed === "no" ? {} : ({ type: "info", t1: Number.POSITIVE_INFINITY } as const);
    this.#do(claim.p, ending, { ...proof(claim), ...unknown });
    if (killed === "before") return;
    this.#state = (
      { ack: "delivered", retry: "pending", release: "pending", quarantine: "quarantined" } as const
    )[ending];
  }

  #do(p: string, op: Operation["op"], rest: Partial<Operation> = {}): void {
    const t0 = this.#now;
    this.operations.push({ p, op, ...this.#event, t0, t1: t0 + MS, type: "ok", ...rest });
    this.#now += 2 * MS;
  }
}

function proof({ attempt, token }: Claim): Pick<Operation, "attempt" | "token"> {
  return { attempt, token };
}

function historyOf(lives: readonly Life[]): History {
  const events = lives.map((each, index) => {
    const simulation = new Simulation(index + 1);
    const final = simulation.run(each);
    return { operations: simulation.operations, final };
  });
  return {
    operations: events.flatMap(({ operations }) => operations),
    final: events.flatMap(({ final }) => final),
    clockSlackNs: MS,
  };
}

const histories = fc.array(life, { minLength: 1, maxLength: 6 }).map(historyOf);

interface Corruption {
  readonly what: string;
  readonly rules: readonly Rule[];
  /** The history, spoiled in one of the places where it can be; undefined if there is none. */
  readonly spoil: (history: History, choice: number) => History | undefined;
}

/** Corrupts one operation that fulfils a condition. */
function atOperation(
  fits: (operation: Operation, history: History) => boolean,
  spoil: (operation: Operation, history: History) => History,
): Corruption["spoil"] {
  return (history, choice) => {
    const places = history.operations.filter((each) => fits(each, history));
    const place = places[choice % places.length];
    return place === undefined ? undefined : spoil(place, history);
  };
}

function replaced(history: History, operation: Operation, ...by: readonly Operation[]): History {
  return { ...history, operations: history.operations.flatMap((each) => (each === operation ? by : each)) };
}

const isOk = (op: Operation["op"]) => (each: Operation) => each.op === op && each.type === "ok";

const corruptions: readonly Corruption[] = [
  {
    what: "a row that disappears",
    rules: ["H1"],
    spoil: atOperation(isOk("ack"), ({ id }, history) => ({
      ...history,
      final: history.final.filter((row) => row.id !== id),
    })),
  },
  {
    what: "an event that is never delivered",
    rules: ["H1"],
    spoil: (history, choice) => {
      const row = history.final[choice % history.final.length];
      const final = history.final.map((each) =>
        each === row ? { ...each, state: "pending" as const } : each,
      );
      return row === undefined ? undefined : { ...history, final };
    },
  },
  {
    what: "an event whose enqueues were rolled back",
    rules: ["H2"],
    spoil: (history, choice) => {
      const row = history.final[choice % history.final.length];
      const operations = history.operations.map((each) =>
        each.op === "enqueue" && each.id === row?.id ? { ...each, type: "fail" as const } : each,
      );
      return row === undefined ? undefined : { ...history, operations };
    },
  },
  {
    what: "a row that is there twice",
    rules: ["H2"],
    spoil: (history, choice) => {
      const row = history.final[choice % history.final.length];
      return row === undefined
        ? undefined
        : { ...history, final: [...history.final, { ...row, rowId: row.rowId + 1000 }] };
    },
  },
  {
    what: "a claim that was granted twice",
    rules: ["H3"],
    spoil: atOperation(isOk("claim"), (claim, history) => {
      const { t0 } = claim;
      const twin = { ...claim, p: "twin", token: `${claim.token}-twin`, t0: t0 + 1000, t1: t0 + MS - 1000 };
      return replaced(history, claim, claim, twin);
    }),
  },
  {
    what: "a lost claim whose write applied",
    rules: ["H4"],
    spoil: atOperation(
      ({ type, answer }) => type === "fail" && answer === "lostClaim",
      (write, history) => replaced(history, write, { ...write, type: "ok" }),
    ),
  },
  {
    what: "a token that is used again",
    rules: ["H5"],
    spoil: atOperation(
      (claim) => isOk("claim")(claim) && (claim.attempt ?? 0) > 1,
      ({ id, attempt = 0 }, history) => ({
        ...history,
        operations: history.operations.map((each) =>
          each.id === id && each.attempt === attempt ? { ...each, token: `${id}/${attempt - 1}` } : each,
        ),
      }),
    ),
  },
  {
    what: "an attempt that is not counted",
    rules: ["H3", "H4", "H5"],
    spoil: atOperation(
      (claim) => isOk("claim")(claim) && (claim.attempt ?? 0) > 1,
      (claim, history) => replaced(history, claim, { ...claim, attempt: (claim.attempt ?? 0) - 1 }),
    ),
  },
  {
    what: "an ack that applied twice",
    rules: ["H6"],
    spoil: atOperation(isOk("ack"), (ack, history) =>
      replaced(history, ack, ack, { ...ack, t0: ack.t0 + 2 * MS, t1: ack.t1 + 2 * MS }),
    ),
  },
];

describe("the history checker", () => {
  it("finds nothing in the histories of a correct store", () => {
    fc.assert(
      fc.property(histories, (history) => {
        expect(checkHistory(history)).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it.each(corruptions)("finds $what", ({ rules, spoil }) => {
    let spoiled = 0;
    fc.assert(
      fc.property(histories, fc.nat(1000), (history, choice) => {
        const corrupt = spoil(history, choice);
        if (corrupt === undefined) return;
        spoiled += 1;
        const violations = checkHistory(corrupt);
        expect(violations.map(({ rule }) => rule)).toContainEqual(
          expect.toSatisfy((rule) => rules.includes(rule)),
        );
        expect(violations).toHaveLength(1);
      }),
      { numRuns: 300 },
    );
    expect(spoiled).toBeGreaterThan(30);
  });
});
