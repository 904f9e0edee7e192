/** Events, arguments inside a transaction, and options of a store that have to be refused. */
import { BOUNDS, type DovecoteOptions } from "@dovecote/core";
import type { Outbox } from "../case.ts";
import { FLAGS, NO_OBJECT, names, numbers, ROW_IDS, STREAMS, shown, wholes } from "./bad-arguments.ts";
import { event } from "./given.ts";

export interface BadCallInTransaction {
  readonly what: string;
  call(outbox: Outbox, tx: unknown): unknown;
}

/** Per attribute: values that no event may have. */
const ATTRIBUTES: Readonly<Record<string, readonly unknown[]>> = {
  id: names(BOUNDS.idBytes),
  source: [undefined, ...names(BOUNDS.sourceBytes), "not a uri"],
  type: [undefined, ...names(BOUNDS.typeBytes)],
  subject: names(BOUNDS.subjectBytes),
  dataschema: [...names(BOUNDS.dataschemaBytes), "/relative", `urn:x:${"y".repeat(BOUNDS.dataschemaBytes)}`],
  datacontenttype: [
    ...names(BOUNDS.datacontenttypeBytes),
    "no-slash",
    `text/${"x".repeat(BOUNDS.datacontenttypeBytes)}`,
  ],
  partitionkey: names(BOUNDS.partitionkeyBytes),
  stream: [undefined, ...STREAMS],
  time: ["", "yesterday", "2024-13-01T00:00:00Z", 5, Number.NaN, new Date(Number.NaN), {}],
  specversion: ["", "0.3", 1, {}],
  extensions: [
    5,
    "text",
    ["x"],
    { Upper: "x" },
    { "with-dash": "x" },
    { ratio: 0.5 },
    { big: 2 ** 31 },
    { nul: "\0" },
  ],
  data: [() => 1, Symbol("x"), 1n, { deep: { nan: Number.NaN } }, { fn: () => 1 }],
};

export function badInTransaction(): readonly BadCallInTransaction[] {
  const bound = BOUNDS.eventBytes;
  const events: readonly (readonly [string, unknown])[] = [
    ...[undefined, ...NO_OBJECT].map((value) => [`no event, but ${shown(value)}`, value] as const),
    ...Object.entries(ATTRIBUTES).flatMap(([name, values]) =>
      values.map(
        (value) => [`an event with ${name} ${shown(value)}`, { ...event(), [name]: value }] as const,
      ),
    ),
    [
      "an event whose identity is a byte too long",
      event({
        id: "i".repeat(BOUNDS.idBytes),
        source: "s".repeat(BOUNDS.identityBytes - BOUNDS.idBytes + 1),
      }),
    ],
    ["an event with more data than fits", event({ data: new Uint8Array(bound + 1) })],
    [
      "an event with more text than fits",
      event({ data: "€".repeat(bound / 3 + 1), datacontenttype: "text/plain" }),
    ],
  ];
  return [
    ...events.flatMap(([what, given]) => [
      one(`enqueue of ${what}`, "enqueue", () => [given]),
      one(`enqueueMany of a good event and ${what}`, "enqueueMany", () => [[event(), given]]),
    ]),
    ...[undefined, {}, ...NO_OBJECT.slice(0, 4)].map((list) =>
      one(`enqueueMany of ${shown(list)}`, "enqueueMany", () => [list]),
    ),
    one("enqueueMany of too many", "enqueueMany", () => [
      Array.from({ length: BOUNDS.limit.max + 1 }, () => event()),
    ]),
    ...wholes(BOUNDS.delayMs).flatMap((delayMs) => [
      one(`enqueue with delayMs ${shown(delayMs)}`, "enqueue", () => [event(), { delayMs }]),
      one(`enqueueMany with delayMs ${shown(delayMs)}`, "enqueueMany", () => [[event()], { delayMs }]),
    ]),
    ...[undefined, {}, { tenant: "" }, { tenant: 5 }, { tenant: "x".repeat(BOUNDS.tenantBytes + 1) }].map(
      (options) => ({
        what: `enqueue by admin with ${shown(options)}`,
        call: (outbox: Outbox, tx: unknown) => {
          const admin = outbox.admin();
          return Reflect.apply(admin.enqueue, admin, [tx, event(), options]);
        },
      }),
    ),
    ...[undefined, null, ...numbers(ROW_IDS)].map((rowId) =>
      one(`redriveIn with rowId ${shown(rowId)}`, "redriveIn", () => [rowId]),
    ),
    ...wholes(BOUNDS.limit).map((limit) =>
      one(`redriveIn with limit ${shown(limit)}`, "redriveIn", () => [{ limit }]),
    ),
    ...FLAGS.map((dryRun) => one(`redriveIn with dryRun ${shown(dryRun)}`, "redriveIn", () => [{ dryRun }])),
  ];
}

function one(what: string, method: string, args: () => readonly unknown[]): BadCallInTransaction {
  return {
    what,
    call: (outbox, tx) => Reflect.apply(Reflect.get(outbox, method), outbox, [tx, ...args()]),
  };
}

export function badOptions(): readonly { readonly what: string; readonly options: DovecoteOptions }[] {
  const given: readonly (readonly [string, readonly unknown[]])[] = [
    ["maxEventBytes", wholes(BOUNDS.maxEventBytes)],
    ["maxAnswerBytes", wholes(BOUNDS.maxAnswerBytes)],
    ["keySecret", [5, "short", {}, true, new Uint8Array(15)]],
    ["redact", [5, "text", {}, true]],
    ["randomBytes", [5, "text", {}, true]],
  ];
  return given.flatMap(([name, values]) =>
    values.map((value) => ({
      what: `a store with ${name} ${shown(value)}`,
      options: { [name]: value } as DovecoteOptions,
    })),
  );
}
