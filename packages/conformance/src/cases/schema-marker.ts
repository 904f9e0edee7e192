import assert from "node:assert/strict";
import { type ErrorCode, isDovecoteError, type SchemaFinding } from "@dovecote/core";
import type { Case, CaseContext, Peer } from "../case.ts";
import { refused, unchanged } from "./expect.ts";
import { claimed, enqueued, enqueuedAndClaimed } from "./given.ts";
import { assertSchema, withoutSchema } from "./schema-report.ts";
import { accepted } from "./written.ts";

export const schemaMarkerCases: readonly Case[] = [
  {
    id: "SCHEMA-05",
    level: 1,
    intent: "a newer schema that this code may still write works: additive migrations allow rolling deploys",
    run: ifDurable(async (t) => {
      const version = await versionOf(t);
      await t.session.faults.writeSchemaMarker({ version: version + 1, requires: version });
      for (const peer of [t, await t.connect()]) {
        await accepted("what writes to a newer schema that may be written", async () => {
          await enqueued(peer);
          await peer.outbox.ack(await claimed(peer.outbox));
        });
        await assertSchema("of a newer schema that may be written", peer, {
          status: "ok",
          version: version + 1,
        });
        const { applied } = await peer.outbox.migrate();
        assert.deepEqual(applied, [], "migrate must apply nothing to a newer schema");
      }
      await assertSchema("after migrate of older code", t, { status: "ok", version: version + 1 });
    }),
  },
  {
    id: "SCHEMA-05",
    level: 1,
    intent: "a schema that requires newer code is SCHEMA_TOO_NEW at a store's first use, before any write",
    run: ifDurable(async (t) => {
      const version = await versionOf(t);
      await refusesFirstUse(t, { version: version + 1, requires: version + 1 }, "SCHEMA_TOO_NEW");
      await assertSchema("of a schema that requires newer code", t, {
        status: "tooNew",
        version: version + 1,
      });
    }),
  },
  {
    id: "SCHEMA-05",
    level: 1,
    intent: "a schema older than the code needs is SCHEMA_TOO_OLD at a store's first use, before any write",
    run: ifDurable(async (t) => {
      const version = await versionOf(t);
      await refusesFirstUse(t, { version: version - 1, requires: version - 1 }, "SCHEMA_TOO_OLD");
      await assertSchema("of a schema that is too old", t, { status: "tooOld", version: version - 1 });
    }),
  },
  {
    id: "SCHEMA-05",
    level: 1,
    intent: "a store in use looks at the marker again when an object is gone, and says what the marker says",
    run: ifDurable(async (t) => {
      const { faults } = t.session;
      const version = await versionOf(t);
      const inUse = await t.connect();
      await inUse.outbox.ack(await enqueuedAndClaimed(inUse));
      await faults.writeSchemaMarker({ version: version + 1, requires: version + 1 });
      await faults.damageSchema("table");
      const codes = await codesOf(inUse);
      assert.ok(
        codes.includes("SCHEMA_TOO_NEW"),
        `a store in use must notice a schema that requires newer code, got ${codes.join(", ")}`,
      );
      for (const code of codes) {
        assert.ok(
          code === undefined || code === "SCHEMA_TOO_NEW",
          `a call that meets a schema that has moved on must say SCHEMA_TOO_NEW, got ${code}`,
        );
      }
    }),
  },
  ...(["table", "column", "index", "constraint"] as const).map(
    (object): Case => ({
      id: "SCHEMA-06",
      level: 1,
      intent: `checkSchema reports a missing or changed ${object}, and writes nothing`,
      run: ifDurable(async (t) => {
        const { session, outbox } = t;
        await enqueued(t);
        const version = await versionOf(t);
        await unchanged("checkSchema", session, () =>
          assertSchema("of a sound schema", t, { status: "ok", version }),
        );
        const name = await session.faults.damageSchema(object);
        const report = await outbox.checkSchema();
        assert.equal(report.status, "changed", `checkSchema must notice a damaged ${object}`);
        assert.ok(
          report.findings.some((finding) => finding.object === object && finding.name === name),
          `checkSchema must report the ${object} ${name}, reported ${JSON.stringify(report.findings)}`,
        );
        for (const finding of report.findings) assertFinding(finding);
        const again = await (await t.connect()).outbox.checkSchema();
        assert.deepEqual(again, report, "checkSchema must write nothing: a second one reports the same");
      }),
    }),
  ),
  {
    id: "SCHEMA-06",
    level: 1,
    intent: "additions of the user's own are no fault",
    run: ifDurable(async (t) => {
      const version = await versionOf(t);
      await t.session.faults.addForeignObjects();
      for (const peer of [t, await t.connect()]) {
        await assertSchema("with objects of the user's own", peer, { status: "ok", version });
        await peer.outbox.ack(await enqueuedAndClaimed(peer));
      }
    }),
  },
];

function ifDurable(run: (t: CaseContext) => Promise<void>): (t: CaseContext) => Promise<void> {
  return (t) => (t.capabilities.durable ? run(t) : withoutSchema(t));
}

async function versionOf({ outbox }: Peer): Promise<number> {
  const { version } = await outbox.checkSchema();
  assert.ok(version !== null, "a migrated schema must have a version");
  return version;
}

/** A store that is opened on a schema with this marker refuses whatever writes or reads events. */
async function refusesFirstUse(
  t: CaseContext,
  marker: { readonly version: number; readonly requires: number },
  code: ErrorCode,
): Promise<void> {
  const { session } = t;
  const claim = await enqueuedAndClaimed(t);
  await session.faults.writeSchemaMarker(marker);
  const events = await session.probe.events();
  const calls: readonly (readonly [string, (peer: Peer) => unknown])[] = [
    ["enqueue", (peer) => enqueued(peer)],
    ["claim", ({ outbox }) => outbox.claim({ worker: "w2" })],
    ["ack", ({ outbox }) => outbox.ack(claim)],
    ["redrive", ({ outbox }) => outbox.redrive({})],
    ["prune", ({ outbox }) => outbox.prune({ olderThanMs: 1000 })],
    ["page", ({ outbox }) => outbox.page()],
    ["stats", ({ outbox }) => outbox.stats()],
  ];
  for (const [what, call] of calls) {
    // A store of its own for each call: every one of them may be the first.
    const fresh = await t.connect();
    await unchanged(what, session, () => refused(`${what} as the first use`, [code], () => call(fresh)));
  }
  assert.deepEqual(await session.probe.events(), events, `${code} must come before any write`);
}

/** What calls of every kind are refused with; undefined for one that still works. */
async function codesOf(peer: Peer): Promise<readonly (ErrorCode | undefined)[]> {
  const { outbox } = peer;
  const calls: readonly (() => Promise<unknown>)[] = [
    () => enqueued(peer),
    () => outbox.claim({ worker: "w1" }),
    () => outbox.page(),
    () => outbox.prune({ olderThanMs: 1000 }),
  ];
  const codes: (ErrorCode | undefined)[] = [];
  for (const call of calls) {
    try {
      await call();
      codes.push(undefined);
    } catch (error) {
      assert.ok(
        isDovecoteError(error),
        `a call on a damaged schema must be refused with a DovecoteError, got ${error}`,
      );
      codes.push(error.code);
    }
  }
  return codes;
}

function assertFinding({ problem, object, name, detail }: SchemaFinding): void {
  assert.ok(
    problem === "missing" || problem === "changed",
    `a finding must be missing or changed, is ${problem}`,
  );
  assert.ok(name !== "" && detail !== "", `a finding about a ${object} must have a name and a detail`);
}
