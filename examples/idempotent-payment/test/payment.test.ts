import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it.each([
  { database: "SQLite", flags: [] },
  { database: "Postgres", flags: ["--postgres"] },
])("a payment is charged once on $database, through two crashes and two at the same time", ({ flags }) => {
  const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...flags], {
    encoding: "utf8",
    timeout: 50_000,
    env: { ...process.env, DATABASE_URL: process.env.DOVECOTE_TEST_POSTGRES_URL },
  });
  expect(stderr.replaceAll(/^.*Experimental.*\n.*\n/gm, "")).toBe("");
  expect(stdout).toContain("after its commit, before its reply");
  expect(stdout).toContain("hears 201 replay");
  expect(stdout).toContain("hears 422 mismatch");
  expect(stdout).toContain("hears 201 completed");
  expect(stdout).toContain("order-17: 1 payment, 1 event, 2 answers, all the same");
  expect(stdout).toContain("order-18: 1 payment, 1 event, 2 answers, all the same");
  expect(stdout).toContain("Each order was charged once, with one event, and everybody was told the same.");
  expect(status).toBe(0);
});
