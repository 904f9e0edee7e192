import { describe, expect, it } from "vitest";
import { checkHistory, explain } from "../src/history/check.ts";
import type { FinalRow, Operation } from "../src/history/operation.ts";
import { claim, did, ends, enqueued, history, ID, proof } from "./history-support.ts";

type Example = readonly [what: string, operations: readonly Operation[], final: readonly FinalRow[]];

const NEVER = Number.POSITIVE_INFINITY;
const killed = { type: "info" } as const;
const refused = { type: "fail", answer: "lostClaim" } as const;
const first = did("a", "claim", [10, 11], claim(1));
const second = did("b", "claim", [30, 31], claim(2));

const good: readonly Example[] = [
  ["an ack", [enqueued, first, did("a", "ack", [20, 21], proof(1))], ends("delivered", 1)],
  ["nothing at all", [], []],
  [
    "a rolled-back enqueue that left nothing",
    [did("producer", "enqueue", [0, 1], { type: "fail", answer: "rolledBack" })],
    [],
  ],
  ["a killed enqueue that left nothing", [did("producer", "enqueue", [0, NEVER], killed)], []],
  [
    "a killed enqueue that was committed",
    [did("producer", "enqueue", [0, NEVER], killed), first, did("a", "ack", [20, 21], proof(1))],
    ends("delivered", 1),
  ],
  [
    "a rolled-back enqueue, and the same one committed",
    [
      did("other", "enqueue", [0, 1], { type: "fail" }),
      did("producer", "enqueue", [2, 3], { answer: "enqueued" }),
      did("other", "enqueue", [4, 5], { answer: "alreadyEnqueued" }),
      first,
      did("a", "ack", [20, 21], proof(1)),
    ],
    ends("delivered", 1),
  ],
  [
    "a killed ack that applied",
    [enqueued, first, did("a", "ack", [20, NEVER], { ...proof(1), ...killed })],
    ends("delivered", 1),
  ],
  [
    "a killed ack that did not apply, and a takeover after the lease was ended",
    [
      enqueued,
      first,
      did("a", "ack", [20, NEVER], { ...proof(1), ...killed }),
      did("suite", "expire", [22, 23]),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a killed claim that counted its attempt",
    [enqueued, did("a", "claim", [10, NEVER], { ...killed }), second, did("b", "ack", [40, 41], proof(2))],
    ends("delivered", 2),
  ],
  [
    "a retry, and a release",
    [
      enqueued,
      first,
      did("a", "retry", [20, 21], proof(1)),
      second,
      did("b", "release", [40, 41], proof(2)),
      did("a", "claim", [50, 51], claim(3)),
      did("a", "ack", [60, 61], proof(3)),
    ],
    ends("delivered", 3),
  ],
  [
    "a claim that returned before the retry that allowed it",
    [
      enqueued,
      first,
      did("a", "retry", [25, 45], proof(1)),
      did("b", "claim", [30, 35], claim(2)),
      did("b", "ack", [50, 51], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a takeover of a lease that ended by itself, and a stale ack that was refused",
    [
      enqueued,
      did("a", "claim", [10, 11], claim(1, 20)),
      second,
      did("a", "ack", [32, 33], { ...proof(1), ...refused }),
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a takeover within what the clocks may differ by",
    [enqueued, did("a", "claim", [10, 11], claim(1, 21.5)), second, did("b", "ack", [40, 41], proof(2))],
    ends("delivered", 2),
  ],
  [
    "a renewal that made the lease shorter, and a takeover",
    [
      enqueued,
      first,
      did("a", "renew", [12, 13], { ...proof(1), leaseMs: 5 }),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a killed renewal that may have made the lease shorter, and one that applied before it",
    [
      enqueued,
      first,
      did("z", "renew", [12, NEVER], { ...proof(1), ...killed, leaseMs: 5 }),
      did("a", "renew", [13, 14], { ...proof(1), leaseMs: 60_000 }),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "two renewals at once, of which the shorter one may be the last",
    [
      enqueued,
      first,
      did("a", "renew", [12, 20], { ...proof(1), leaseMs: 5 }),
      did("a", "renew", [13, 14], { ...proof(1), leaseMs: 60_000 }),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a quarantine, a redrive and an ack",
    [
      enqueued,
      first,
      did("a", "quarantine", [20, 21], proof(1)),
      did("a", "redrive", [22, 23]),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "a quarantine and a killed redrive that applied later",
    [
      enqueued,
      first,
      did("a", "quarantine", [20, 21], proof(1)),
      did("a", "redrive", [22, NEVER], killed),
      second,
      did("b", "quarantine", [40, 41], proof(2)),
    ],
    ends("quarantined", 2),
  ],
];

const bad: readonly (readonly [rule: string, message: RegExp, ...Example])[] = [
  ["H1", /committed it, and it is gone/, "a committed event that is missing", [enqueued], []],
  ["H1", /never delivered/, "an event that is left over", [enqueued], ends("pending", 0)],
  ["H1", /without a delivery/, "an event without a delivery", [enqueued], ends(null, 0)],
  [
    "H1",
    /acknowledged it, and it is quarantined/,
    "an ack that was lost",
    [
      enqueued,
      first,
      did("b", "quarantine", [12, NEVER], { ...proof(1), ...killed }),
      did("a", "ack", [20, 21], proof(1)),
    ],
    ends("quarantined", 1),
  ],
  [
    "H1",
    /quarantined it, nobody redrove it/,
    "a quarantine that was lost",
    [
      enqueued,
      first,
      did("b", "ack", [12, NEVER], { ...proof(1), ...killed }),
      did("a", "quarantine", [20, 21], proof(1)),
    ],
    ends("delivered", 1),
  ],
  [
    "H1",
    /claimed it, and it is gone/,
    "a claimed event of a killed enqueue that is missing",
    [did("producer", "enqueue", [0, NEVER], killed), first, did("a", "release", [20, 21], proof(1))],
    [],
  ],
  [
    "H2",
    /nobody enqueued it/,
    "an event that nobody enqueued",
    [first, did("a", "ack", [20, 21], proof(1))],
    ends("delivered", 1),
  ],
  [
    "H2",
    /rolled back/,
    "a rolled-back event that was delivered",
    [did("producer", "enqueue", [0, 1], { type: "fail" }), first, did("a", "ack", [20, 21], proof(1))],
    ends("delivered", 1),
  ],
  [
    "H2",
    /rows 1 and 2/,
    "two rows for one event",
    [enqueued, first, did("a", "ack", [20, 21], proof(1))],
    [...ends("delivered", 1), { id: ID, rowId: 2, state: "delivered", attempts: 1 }],
  ],
  [
    "H2",
    /stored it as new/,
    "two enqueues that both stored it",
    [
      enqueued,
      did("other", "enqueue", [2, 3], { answer: "enqueued" }),
      first,
      did("a", "ack", [20, 21], proof(1)),
    ],
    ends("delivered", 1),
  ],
  [
    "H2",
    /before it was enqueued/,
    "a claim before the enqueue",
    [did("producer", "enqueue", [12, 13]), first, did("a", "ack", [20, 21], proof(1))],
    ends("delivered", 1),
  ],
  [
    "H2",
    /there was no ack/,
    "an event that is delivered although nobody acknowledged it",
    [enqueued, first],
    ends("delivered", 1),
  ],
  [
    "H3",
    /attempt 2 of b .* attempt 1 of a/,
    "a claim while a lease lives",
    [enqueued, first, second, did("b", "ack", [40, 41], proof(2))],
    ends("delivered", 2),
  ],
  [
    "H3",
    /attempt 1 of b/,
    "two claims at once with the same attempt",
    [
      enqueued,
      first,
      did("b", "claim", [10.2, 10.8], { ...claim(1), token: "other" }),
      did("b", "ack", [40, 41], { attempt: 1, token: "other" }),
    ],
    ends("delivered", 1),
  ],
  [
    "H3",
    /attempt 3 of c .* attempt 1 of a/,
    "an overlap with a claim before the last one",
    [
      enqueued,
      first,
      did("b", "claim", [12, 90_000], claim(2, 1)),
      did("c", "claim", [30, 31], claim(3)),
      did("c", "ack", [40, 41], proof(3)),
    ],
    ends("delivered", 3),
  ],
  [
    "H3",
    /attempt 2 of b/,
    "a claim after a renewal that applied",
    [
      enqueued,
      did("a", "claim", [10, 11], claim(1, 10)),
      did("a", "renew", [15, 16], { ...proof(1), leaseMs: 1000 }),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "H3",
    /attempt 2 of b/,
    "a lease that was ended before it began is no excuse",
    [enqueued, did("suite", "expire", [5, 6]), first, second, did("b", "ack", [40, 41], proof(2))],
    ends("delivered", 2),
  ],
  ...(["ack", "retry", "release", "quarantine", "renew"] as const).map(
    (verb) =>
      [
        "H4",
        new RegExp(`^${verb} by attempt 1 of a applied`),
        `a stale ${verb}`,
        [
          enqueued,
          first,
          did("suite", "expire", [20, 21]),
          second,
          did("a", verb, [32, 33], { ...proof(1), leaseMs: 1000 }),
        ],
        ends("delivered", 2),
      ] as const,
  ),
  [
    "H4",
    /yet a later attempt was made/,
    "an ack although the next claim was under way",
    [enqueued, first, did("suite", "expire", [20, 21]), second, did("a", "ack", [30.5, 33], proof(1))],
    ends("delivered", 2),
  ],
  [
    "H4",
    /yet a later attempt was made/,
    "an ack although a killed claim had counted its attempt",
    [enqueued, first, did("a", "ack", [30, 33], proof(1))],
    ends("delivered", 2),
  ],
  [
    "H4",
    /quarantine .* yet a later attempt was made/,
    "a claim of a quarantined event",
    [
      enqueued,
      first,
      did("a", "quarantine", [20, 21], proof(1)),
      second,
      did("b", "ack", [40, 41], proof(2)),
    ],
    ends("delivered", 2),
  ],
  [
    "H5",
    /has the token of attempt 1/,
    "a token that is used again",
    [
      enqueued,
      first,
      did("a", "retry", [20, 21], proof(1)),
      did("b", "claim", [30, 31], { ...claim(2), token: "token-1" }),
      did("b", "ack", [40, 41], { attempt: 2, token: "token-1" }),
    ],
    ends("delivered", 2),
  ],
  [
    "H5",
    /both were given attempt 1/,
    "an attempt that is given again",
    [
      enqueued,
      first,
      did("a", "release", [20, 21], proof(1)),
      did("b", "claim", [30, 31], { ...claim(1), token: "other" }),
      did("b", "ack", [40, 41], { attempt: 1, token: "other" }),
    ],
    ends("delivered", 1),
  ],
  [
    "H5",
    /attempt 2 after attempt 3/,
    "an attempt that falls",
    [
      enqueued,
      did("a", "claim", [10, 11], claim(3)),
      did("a", "release", [20, 21], proof(3)),
      did("b", "claim", [30, 31], claim(2)),
      did("b", "release", [40, 41], { ...proof(2), ...refused }),
      did("b", "claim", [50, 51], claim(4)),
      did("b", "quarantine", [60, 61], proof(4)),
    ],
    ends("quarantined", 4),
  ],
  [
    "H5",
    /ends with attempt 0/,
    "an attempt that was taken back",
    [
      enqueued,
      first,
      did("a", "release", [20, 21], proof(1)),
      did("b", "claim", [30, NEVER], killed),
      did("b", "ack", [40, NEVER], { ...killed }),
    ],
    ends("delivered", 0),
  ],
  [
    "H6",
    /without a redrive/,
    "two acks of one claim",
    [enqueued, first, did("a", "ack", [20, 21], proof(1)), did("a", "ack", [22, 23], proof(1))],
    ends("delivered", 1),
  ],
  [
    "H6",
    /quarantine by a applied after ack by a/,
    "an ack and a quarantine of one claim",
    [
      enqueued,
      first,
      did("a", "ack", [20, 21], proof(1)),
      did("a", "quarantine", [22, 23], proof(1)),
      did("a", "redrive", [22, 23]),
    ],
    ends("delivered", 1),
  ],
];

describe("the history checker", () => {
  it.each(good)("finds nothing in a history with %s", (_what, operations, final) => {
    expect(checkHistory(history(operations, final))).toEqual([]);
  });

  it.each(bad)("%s %s: finds %s", (rule, message, _what, operations, final) => {
    const [found, ...others] = checkHistory(history(operations, final));
    expect(others).toEqual([]);
    expect(found).toMatchObject({ rule, event: ID, message: expect.stringMatching(message) });
  });

  it("notices a token that comes again with another event", () => {
    const other = { id: "acme/event-2", rowId: 2 };
    const operations = [
      enqueued,
      first,
      did("a", "ack", [20, 21], proof(1)),
      did("producer", "enqueue", [2, 3], { ...other, answer: "enqueued" }),
      did("b", "claim", [30, 31], { ...claim(1), ...other }),
      did("b", "ack", [40, 41], { ...proof(1), ...other }),
    ];
    const final = [...ends("delivered", 1), { ...other, state: "delivered", attempts: 1 } as const];
    expect(checkHistory(history(operations, final))).toMatchObject([{ rule: "H5", event: "acme/event-2" }]);
  });

  it("shows what happened to the event, in order, with the seed", () => {
    const last = did("b", "ack", [40, NEVER], { ...proof(2), type: "info" });
    const violations = checkHistory(history([last, second, enqueued, first], ends("delivered", 2)));
    expect(explain(violations, 42).split("\n")).toEqual([
      "events that break the history rules: 1; seed 42",
      "",
      "H3, two live claims overlapped (events: 1): attempt 2 of b was claimed while attempt 1 of a was alive",
      "      0.000 ms producer       enqueue    ok   row 1, enqueued, took 1.000 ms",
      "     10.000 ms a              claim      ok   row 1, attempt 1, token token-1, lease 60000 ms, took 1.000 ms",
      "     30.000 ms b              claim      ok   row 1, attempt 2, token token-2, lease 60000 ms, took 1.000 ms",
      "     40.000 ms b              ack        info row 1, attempt 2, token token-2, never returned",
      "  in the end   row 1 delivered attempt 2",
    ]);
  });
});

describe("H7: idempotency keys", () => {
  const key = (
    p: string,
    op: Operation["op"],
    times: readonly [number, number],
    rest: Partial<Operation> = {},
  ) => {
    const { rowId: _, ...operation } = did(p, op, times, rest);
    return { ...operation, id: "key/1" };
  };
  const acquired = (p: string, from: number, leaseMs = 100): Operation =>
    key(p, "begin", [from, from + 1], { token: p, leaseMs, answer: "acquired" });
  const replayed = (p: string, from: number, token: string): Operation =>
    key(p, "begin", [from, from + 1], { token, answer: "replay" });
  const of = (p: string, op: Operation["op"], from: number, rest: Partial<Operation> = {}): Operation =>
    key(p, op, [from, from + 1], { token: p, ...rest });

  it.each<[string, readonly Operation[], readonly string[]]>([
    ["a payment and its replays", [acquired("a", 0), of("a", "complete", 5), replayed("b", 9, "a")], ["a"]],
    ["a takeover after the lease", [acquired("a", 0), acquired("b", 110), of("b", "complete", 120)], ["b"]],
    ["two at once, one after a release", [acquired("a", 0), of("a", "release", 5), acquired("b", 6)], []],
    [
      "a killed payment that was committed",
      [acquired("a", 0), of("a", "complete", 5, { type: "info", t1: NEVER }), replayed("b", 200, "a")],
      ["a"],
    ],
    [
      "a late payment that was refused",
      [
        acquired("a", 0),
        acquired("b", 110),
        of("b", "complete", 120),
        of("a", "complete", 130, { type: "fail" }),
      ],
      ["b"],
    ],
    [
      "a claim that was held longer than its lease",
      [acquired("a", 0), of("a", "hold", 5), of("a", "complete", 300), replayed("b", 400, "a")],
      ["a"],
    ],
    [
      "a takeover that may have come after a renewal of unknown effect",
      [
        acquired("a", 0),
        of("a", "renew", 50, { type: "info", leaseMs: 1000 }),
        acquired("b", 120),
        of("b", "complete", 130),
      ],
      ["b"],
    ],
  ])("%s is explicable", (_what, operations, rows) => {
    expect(
      checkHistory({ ...history(operations, []), businessRows: rows.map((row) => `key/1=${row}`) }),
    ).toEqual([]);
  });

  it.each<[string, readonly Operation[], readonly string[], RegExp]>([
    [
      "two owners at once",
      [acquired("a", 0), acquired("b", 50)],
      [],
      /b acquired it while the claim of a was alive/,
    ],
    [
      "an owner beside a renewed claim",
      [acquired("a", 0), of("a", "renew", 50, { leaseMs: 1000 }), acquired("b", 120)],
      [],
      /while the claim of a was alive/,
    ],
    [
      "an owner beside a held claim",
      [acquired("a", 0), of("a", "hold", 5), acquired("b", 200), of("a", "complete", 300)],
      ["a"],
      /while the claim of a was alive/,
    ],
    [
      "a payment after a takeover",
      [acquired("a", 0), acquired("b", 110), of("a", "complete", 130)],
      ["a"],
      /a completed it after b had taken it over/,
    ],
    ["two payments", [acquired("a", 0), of("a", "complete", 5)], ["a", "b"], /was written 2 times/],
    [
      "a payment that is gone",
      [acquired("a", 0), of("a", "complete", 5)],
      [],
      /the business row of a is not there/,
    ],
    ["a row of nobody's", [acquired("a", 0)], ["a"], /nobody committed/],
    [
      "another answer",
      [acquired("a", 0), of("a", "complete", 5), replayed("b", 9, "x")],
      ["a"],
      /b was answered x, and its business row says a/,
    ],
    ["an answer without a payment", [replayed("b", 9, "a")], [], /says nothing/],
  ])("%s is not", (_what, operations, rows, message) => {
    const violations = checkHistory({
      ...history(operations, []),
      businessRows: rows.map((row) => `key/1=${row}`),
    });
    expect(violations.map(({ rule, event }) => [rule, event])).toEqual([["H7", "key/1"]]);
    expect(violations[0]?.message).toMatch(message);
    expect(explain(violations, 1)).toMatch(/H7, .*\n.*begin/s);
  });
});
