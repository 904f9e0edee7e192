// Looks at the packages as their users get them: packs each, lets publint and attw judge the tarball, installs all of them
// with npm into an empty folder, and uses them from there (ESM, CommonJS, types, the README's example).
//   node scripts/check-packages.ts [--readme path] [--keep]
// The emitted .d.ts keep their `.ts` imports: TypeScript finds `x.d.ts` behind "./x.ts" from 5.0 on (tried with 5.6 and 6.0,
// nodenext and bundler, skipLibCheck off), so they are shipped as they are.
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  entryPoints,
  fileFaults,
  type Manifest,
  manifestFaults,
  typescriptUrls,
} from "./packages/manifest.ts";
import { readmeExample } from "./packages/readme-example.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: options } = parseArgs({
  options: { readme: { type: "string" }, keep: { type: "boolean", default: false } },
});
const scratch = mkdtempSync(join(tmpdir(), "dovecote-packages-"));
const tarballs = join(scratch, "tarballs");
const consumer = join(scratch, "consumer");

// NODE_PATH and the workspace's own bin folder would lend the packages what they did not declare.
const { NODE_PATH: _, ...inherited } = process.env;
const consumerEnv = { ...inherited, PATH: [dirname(process.execPath), inherited.PATH].join(delimiter) };
const workspaceEnv = {
  ...consumerEnv,
  TURBO_TELEMETRY_DISABLED: "1",
  PATH: [join(root, "node_modules", ".bin"), consumerEnv.PATH].join(delimiter),
};

let passed = 0;
let failed = 0;

/** One check, one line. What it throws is shown below the line; the checks after it still run. */
function check<T>(name: string, body: () => T): T | undefined {
  try {
    const result = body();
    passed += 1;
    console.log(`ok   ${name}`);
    return result;
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}`);
    console.log((error instanceof Error ? error.message : String(error)).replace(/^/gm, "     "));
    return undefined;
  }
}

function run(cwd: string, env: NodeJS.ProcessEnv, file: string, ...args: string[]): string {
  const { status, signal, error, stdout, stderr } = spawnSync(file, args, {
    cwd,
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 300_000,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${file} ended with ${signal ?? status}\n${stdout}\n${stderr}`.trim());
  return stdout;
}

function none(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(faults.join("\n"));
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

interface Packed {
  readonly manifest: Manifest;
  readonly tarball: string;
}

function pack(folder: string, manifest: Manifest): Packed {
  const output = run(folder, workspaceEnv, "pnpm", "pack", "--json", "--pack-destination", tarballs);
  const { filename, files } = JSON.parse(output.slice(output.indexOf("{"))) as {
    filename: string;
    files: { path: string }[];
  };
  none(fileFaults(files.map((file) => file.path)));
  return { manifest, tarball: filename };
}

function installTogether(packed: readonly Packed[]): void {
  const pinned: Record<string, string | undefined> = { ...readManifest(root).devDependencies };
  for (const { manifest } of packed) {
    if (["core", "postgres", "sqlite", "http"].some((name) => manifest.name === `@dovecote/${name}`))
      Object.assign(pinned, manifest.devDependencies);
  }
  const peers = [
    "better-sqlite3",
    "@types/better-sqlite3",
    "postgres",
    "@types/node",
    "drizzle-orm",
    "@opentelemetry/api",
    "express",
    "@types/express",
    "fastify",
  ];
  const others = peers.map((name) => `${name}@${pinned[name]}`);
  mkdirSync(consumer);
  writeFileSync(join(consumer, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const flags = ["--no-audit", "--no-fund", "--loglevel=error"];
  run(consumer, consumerEnv, "npm", "install", ...flags, ...packed.map(({ tarball }) => tarball), ...others);
}

/** The names a module exports, as a fresh process in the consumer's folder sees them. */
function exportedNames(entry: string, how: "import" | "require"): string[] {
  const names = (value: string): string => `console.log(JSON.stringify(Object.keys(${value}).sort()))`;
  const esm = how === "import";
  const file = join(consumer, esm ? "probe.mjs" : "probe.cjs");
  const specifier = JSON.stringify(entry);
  writeFileSync(file, esm ? names(`await import(${specifier})`) : names(`require(${specifier})`));
  const found = JSON.parse(run(consumer, consumerEnv, process.execPath, file)) as string[];
  if (found.length === 0) throw new Error("it exports nothing");
  return found;
}

function checkTypes(source: string, { skipLibCheck }: { readonly skipLibCheck: boolean }): void {
  const compilerOptions = {
    target: "es2023",
    module: "nodenext",
    allowImportingTsExtensions: true,
    types: ["node"],
    strict: true,
    skipLibCheck,
    noEmit: true,
  };
  writeFileSync(join(consumer, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [source] }));
  const tsc = join(root, "node_modules", "typescript", "lib", "tsc.js");
  run(consumer, consumerEnv, process.execPath, tsc, "-p", "tsconfig.json");
}

function checkInstalled(packed: readonly Packed[]): void {
  const entries: string[] = [];
  for (const { manifest } of packed) {
    const { name } = manifest;
    const folder = join(consumer, "node_modules", name);
    const installed = check(`${name}: manifest as packed`, () => {
      const found = readManifest(folder);
      none(manifestFaults(found));
      return found;
    });
    check(`${name}: names no TypeScript file`, () => {
      const compiled = readdirSync(join(folder, "dist"), { recursive: true, encoding: "utf8" });
      const scripts = compiled.filter((file) => file.endsWith(".js"));
      none(
        scripts.flatMap((file) =>
          typescriptUrls(readFileSync(join(folder, "dist", file), "utf8")).map(
            (url) => `dist/${file}: ${url}`,
          ),
        ),
      );
    });
    for (const entry of entryPoints(installed ?? manifest)) {
      entries.push(entry);
      const asEsm = check(`${entry}: import`, () => exportedNames(entry, "import"));
      check(`${entry}: require() gives the same exports`, () => {
        const asCommonJs = exportedNames(entry, "require").filter((name) => name !== "module.exports");
        if (String(asCommonJs) !== String(asEsm)) throw new Error(`import: ${asEsm}\nrequire: ${asCommonJs}`);
      });
    }
  }
  // drizzle's own declarations do not compile without every client that it supports.
  const overDrizzle = entries.filter((entry) => entry.endsWith("/drizzle"));
  const others = entries.filter((entry) => !overDrizzle.includes(entry));
  for (const [name, chosen, skipLibCheck] of [
    ["all packages: declarations compile, strict, without skipLibCheck", others, false],
    ["drizzle tables: declarations compile, strict", overDrizzle, true],
  ] as const) {
    check(name, () => {
      const lines = chosen.map((entry, index) => `export * as entry${index} from ${JSON.stringify(entry)};`);
      writeFileSync(join(consumer, "entries.ts"), lines.join("\n"));
      checkTypes("entries.ts", { skipLibCheck });
    });
  }
  const example = check("README: has the sqlite example", () =>
    readmeExample(readFileSync(options.readme ?? join(root, "README.md"), "utf8"), "sqlite"),
  );
  if (example === undefined) return;
  writeFileSync(join(consumer, "example.ts"), example);
  check("README: sqlite example compiles, strict", () => checkTypes("example.ts", { skipLibCheck: false }));
  check("README: sqlite example runs", () => run(consumer, consumerEnv, process.execPath, "example.ts"));
  checkGate();
  checkForeignHarness();
}

/** The server of the http package's README, asked twice. */
function checkGate(): void {
  const example = check("@dovecote/http: README has its example", () =>
    readmeExample(readFileSync(join(root, "packages/http/README.md"), "utf8"), "http"),
  );
  if (example === undefined) return;
  rmSync(join(consumer, "shop.db"), { force: true });
  const anyPort = example.replace(".listen(3000,", ".listen(0,");
  const asked = [
    'import { askTwice } from "./ask-twice.ts";',
    anyPort,
    "await askTwice(server);",
    "await shop.close();",
  ];
  copyFileSync(join(root, "scripts/packages/ask-twice.ts"), join(consumer, "ask-twice.ts"));
  writeFileSync(join(consumer, "gate.ts"), asked.join("\n"));
  check("@dovecote/http: README's example compiles, strict", () =>
    checkTypes("gate.ts", { skipLibCheck: false }),
  );
  check("@dovecote/http: README's example answers a retry from its record", () =>
    run(consumer, consumerEnv, process.execPath, "gate.ts"),
  );
}

/** The author of another driver: a harness in TypeScript, the installed suite, and no tool of this workspace. */
function checkForeignHarness(): void {
  const harness = [
    'import { defineHarness } from "@dovecote/conformance";',
    'import { referenceHarness } from "@dovecote/conformance/reference";',
    'export default defineHarness({ ...referenceHarness, driver: { name: "foreign", version: "1.0.0", contract: 1 } });',
  ];
  const test = [
    'import { after, describe, it } from "node:test";',
    'import { runConformance } from "@dovecote/conformance";',
    'const harness = new URL("./harness.ts", import.meta.url);',
    "runConformance(harness, { describe, it, afterAll: after, levels: [1] });",
  ];
  writeFileSync(join(consumer, "harness.ts"), harness.join("\n"));
  writeFileSync(join(consumer, "harness.test.ts"), test.join("\n"));
  const suite = ["--no-install", "@dovecote/conformance", "./harness.ts"];
  check("a foreign harness: npx @dovecote/conformance, level 1", () => {
    run(consumer, consumerEnv, "npx", ...suite, "--level", "1");
    const report = readFileSync(join(consumer, "conformance-report.json"), "utf8");
    const { levels } = JSON.parse(report) as { readonly levels: Readonly<Record<string, string>> };
    if (levels["1"] !== "passed") throw new Error(`level 1 is ${levels["1"]}`);
  });
  check("a foreign harness: on a Node that was not told to run TypeScript", () =>
    run(
      consumer,
      { ...consumerEnv, NODE_OPTIONS: "--no-experimental-strip-types" },
      "npx",
      ...suite,
      "--only",
      "FENCE-01",
    ),
  );
  check("a foreign harness: in node:test, level 1", () =>
    run(consumer, consumerEnv, process.execPath, "--test", "harness.test.ts"),
  );
}

function checkPackages(): void {
  mkdirSync(tarballs);
  const folders = readdirSync(join(root, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(root, "packages", entry.name));
  const publics = folders
    .map((folder) => ({ folder, manifest: readManifest(folder) }))
    .filter(({ manifest }) => manifest.private !== true);

  check("build", () => {
    // What a renamed source once compiled to must not be packed.
    for (const { folder } of publics) rmSync(join(folder, "dist"), { recursive: true, force: true });
    run(root, workspaceEnv, "turbo", "run", "build", "--output-logs=errors-only");
  });

  const packed: Packed[] = [];
  for (const { folder, manifest } of publics) {
    const { name } = manifest;
    const result = check(`${name}: pack`, () => pack(folder, manifest));
    if (result === undefined) continue;
    packed.push(result);
    const { tarball } = result;
    check(`${name}: publint`, () => run(root, workspaceEnv, "publint", "--strict", tarball));
    check(`${name}: attw`, () =>
      run(
        root,
        workspaceEnv,
        "attw",
        "--profile",
        "esm-only",
        "--no-definitely-typed",
        "--format",
        "ascii",
        tarball,
      ),
    );
  }
  // Drivers need the core's tarball, and npm has no other place to take an unpublished version from.
  if (packed.length < publics.length) {
    check("packed install", () => {
      throw new Error("not every package could be packed");
    });
    return;
  }
  check("packed install", () => installTogether(packed));
  checkInstalled(packed);
}

checkPackages();
if (options.keep) console.log(`kept ${scratch}`);
else rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
