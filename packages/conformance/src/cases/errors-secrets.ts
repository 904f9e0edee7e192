import assert from "node:assert/strict";
import { inspect } from "node:util";
import type { Claim } from "@dovecote/core";
import type { Case, CaseContext } from "../case.ts";
import type { Json } from "../define-harness.ts";
import { errorOf, refusals } from "./errors-refusals.ts";
import { claimed, enqueuedAndClaimed, takenOver } from "./given.ts";
import { PROVINGS } from "./settling.ts";

export const secretCases: readonly Case[] = [
  {
    id: "ERR-04",
    level: 1,
    intent: "no token is in a string, JSON or deep inspection of what a caller gets",
    async run(t) {
      const { session, outbox } = t;
      const { stale, live } = await takenOver(t);
      const secrets = [stale, live].flatMap(tokenForms);
      assert.equal(
        (await session.probe.deliveries())[0]?.token,
        live.token.reveal(),
        "only reveal() gives the token away",
      );
      const [row] = (await outbox.page()).entries;
      const answers: readonly (readonly [string, unknown])[] = [
        ["a claim", live],
        ["the token of a claim", live.token],
        ["a page", await outbox.page()],
        ["an entry", row],
        ["a list", await outbox.list({ state: "claimed" })],
        ["inspect", await outbox.inspect(live.rowId)],
        ["stats", await outbox.stats()],
        ["a renewal", await outbox.renew([live])],
        [
          "outcomes",
          await outbox.settle([
            { action: "ack", claim: stale },
            { action: "ack", claim: live },
          ]),
        ],
        ["the store", outbox],
        ["a tenant's handle", outbox.tenant("acme")],
        ["the admin handle", outbox.admin()],
      ];
      for (const [what, answer] of answers) assertSilent(what, answer, secrets);
    },
  },
  {
    id: "ERR-04",
    level: 1,
    intent: "no token is in the error of a call that was given one, well formed or mistyped",
    async run(t) {
      const { outbox } = t;
      const claim = await enqueuedAndClaimed(t);
      const token = claim.token.reveal();
      const secrets = tokenForms(claim);
      const mistyped: readonly unknown[] = [
        `${token}0`,
        ` ${token}`,
        token.toUpperCase(),
        [token],
        { token },
      ];
      for (const { name, one, many } of PROVINGS) {
        const given: readonly (readonly [string, unknown])[] = [
          ...mistyped.map((wrong) => ["a mistyped token", { ...claim, token: wrong }] as const),
          ["a row without a claim", { ...claim, rowId: claim.rowId + 1_000_000, token }],
          ["another attempt", { ...claim, attempt: claim.attempt + 1, token }],
          ["a token as the row id", { ...claim, rowId: token }],
          ["a token as the attempt", { ...claim, attempt: token }],
          ["a token for a claim", token],
        ];
        for (const [wrong, value] of given) {
          const what = `${name} with ${wrong}`;
          for (const call of [() => one(outbox, value as Claim), () => many(outbox, [value as Claim])]) {
            const error = await errorOf(what, call);
            if (error !== undefined) assertSilent(`the error of ${what}`, error, secrets);
          }
        }
      }
    },
  },
  {
    id: "ERR-04",
    level: 1,
    intent: "no token, password or connection string is in any error, nor in what is printed",
    async run(t) {
      const printed = capturePrinted();
      const secrets = [...passwordsIn(t.locator)];
      try {
        const drawn = await tokensOf(t);
        secrets.push(...drawn);
        for (const { what, error } of await refusals(t)) assertSilent(`the error of ${what}`, error, secrets);
      } finally {
        printed.end();
      }
      assertSilent("what was printed", printed.text(), secrets);
    },
  },
];

/** Some claims that stay in the tables while calls are refused. */
async function tokensOf(t: CaseContext): Promise<readonly string[]> {
  const first = await enqueuedAndClaimed(t);
  const second = await enqueuedAndClaimed(t);
  await t.session.faults.expireLeases([second.rowId]);
  return [first, second, await claimed(t.outbox, { worker: "w2" })].flatMap(tokenForms);
}

/** A token as it would look in whatever prints it: as digits, as bytes, as text. */
function tokenForms({ token }: Claim): readonly string[] {
  const hex = token.reveal();
  const bytes = Buffer.from(hex, "hex");
  const spaced = hex.replaceAll(/..(?=.)/g, "$& ");
  return [
    hex,
    hex.toUpperCase(),
    spaced,
    [...bytes].join(","),
    [...bytes].join(", "),
    bytes.toString("base64"),
  ];
}

/** Passwords, and connection strings with one, anywhere in a locator. */
function passwordsIn(locator: Json): readonly string[] {
  if (typeof locator === "string") {
    const password = URL.canParse(locator) ? new URL(locator).password : "";
    return password === "" ? [] : [locator, password];
  }
  if (typeof locator !== "object" || locator === null) return [];
  return Object.entries(locator).flatMap(([key, value]) =>
    /password|secret/i.test(key) && typeof value === "string" && value !== "" ? [value] : passwordsIn(value),
  );
}

/** Everything that a logger, a serialiser or a debugger would make of a value. */
function assertSilent(what: string, value: unknown, secrets: readonly string[]): void {
  const deep = {
    depth: Number.POSITIVE_INFINITY,
    maxArrayLength: null,
    maxStringLength: null,
    breakLength: 1e9,
  };
  const texts: readonly (readonly [string, string])[] = [
    ["a string", printable(value)],
    ["JSON", JSON.stringify(value) ?? ""],
    ["an inspection", inspect(value, deep)],
    ["a deep inspection", inspect(value, { ...deep, showHidden: true })],
    [
      "an inspection past its own wishes",
      inspect(value, { ...deep, showHidden: true, customInspect: false }),
    ],
    ...errorTexts(value),
  ];
  for (const [form, text] of texts) {
    assert.ok(
      secrets.every((secret) => !text.includes(secret)),
      `${what}, as ${form}, must hold no token, password or connection string`,
    );
  }
}

function printable(value: unknown): string {
  return typeof value === "object" && value !== null && !("toString" in value) ? "" : String(value);
}

function errorTexts(value: unknown): readonly (readonly [string, string])[] {
  if (!(value instanceof Error)) return [];
  return [["a message", value.message], ["a stack", value.stack ?? ""], ...errorTexts(value.cause)];
}

/** What is printed meanwhile. Still printed: other cases may be running. */
function capturePrinted(): { text(): string; end(): void } {
  let text = "";
  const streams = [process.stdout, process.stderr];
  const originals = streams.map((stream) => stream.write);
  for (const [index, stream] of streams.entries()) {
    stream.write = (...args: readonly unknown[]): boolean => {
      text += String(args[0]);
      return Reflect.apply(originals[index] as typeof stream.write, stream, args);
    };
  }
  const onWarning = (warning: Error): void => {
    text += inspect(warning);
  };
  process.on("warning", onWarning);
  return {
    text: () => text,
    end() {
      for (const [index, stream] of streams.entries()) stream.write = originals[index] as typeof stream.write;
      process.off("warning", onWarning);
    },
  };
}
