/** What cases about the schema share. */
import assert from "node:assert/strict";
import type { SchemaReport } from "@dovecote/core";
import type { CaseContext, Peer } from "../case.ts";
import { claimed, enqueued } from "./given.ts";

/** A store that is not durable has no schema: `migrate` is a no-op, and `checkSchema` says so. */
export async function withoutSchema(t: CaseContext): Promise<void> {
  const { outbox } = t;
  await assertSchema("before migrate", t, { status: "none" });
  await enqueued(t);
  const rows = await t.session.probe.deliveries();
  for (let n = 0; n < 2; n++) {
    const { applied } = await outbox.migrate();
    assert.deepEqual(applied, [], "migrate of a store without schema must be a no-op");
  }
  await assertSchema("after migrate", t, { status: "none" });
  assert.deepEqual(
    await t.session.probe.deliveries(),
    rows,
    "migrate of a store without schema must change nothing",
  );
  await outbox.ack(await claimed(outbox));
}

/** What `checkSchema` says, and that it finds no fault. */
export async function assertSchema(
  when: string,
  { outbox }: Peer,
  expected: Partial<SchemaReport>,
): Promise<void> {
  const report = await outbox.checkSchema();
  assert.equal(report.status, expected.status, `checkSchema ${when} must say ${expected.status}`);
  if (expected.version !== undefined) {
    assert.equal(report.version, expected.version, `checkSchema ${when} must answer the version`);
  }
  if (report.status === "ok" || report.status === "none") {
    assert.deepEqual(report.findings, [], `checkSchema ${when} must find nothing`);
  }
}
