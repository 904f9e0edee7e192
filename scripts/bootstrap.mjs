// Runs a script of the workspace on a machine that may have nothing but Node's npm: installs the pinned pnpm, Node and
// packages first when they are missing or older than the lockfile, then hands over to the pinned Node.
// Plain JavaScript without dependencies, since it runs before anything is installed and on whatever Node is there.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const bin = join(root, "node_modules", ".bin");
const stamp = join(root, "node_modules", ".dovecote-install");
const windows = process.platform === "win32";
const { packageManager, devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** What an installation depends on: when none of it changed, nothing has to be installed again. */
function installationKey() {
  const hash = createHash("sha256").update(`${process.platform} ${process.arch}\n`);
  for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml", "package.json"]) {
    hash.update(readFileSync(join(root, file)));
  }
  return hash.digest("hex");
}

function run(command, args, options = {}) {
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    stdio: "inherit",
    shell: windows,
    ...options,
  });
  if (error) {
    console.error(`${command}: ${error.message}`);
    return 127;
  }
  if (signal) console.error(`${command}: ended by ${signal}`);
  return signal ? 1 : (status ?? 1);
}

/** Runs the pinned pnpm without relying on anything that is installed here. */
function runPnpm(...args) {
  // From an empty folder: npx prefers a package it finds around it, and one of an interrupted installation lacks its bin.
  const cwd = mkdtempSync(join(tmpdir(), "dovecote-install-"));
  const env = { ...process.env, npm_config_update_notifier: "false" };
  delete env.npm_config_local_prefix;
  // npx asks before it downloads, and here nobody may be there to answer. What is printed goes to stderr, so that a
  // script's own output stays alone on stdout.
  const stdio = ["ignore", 2, "inherit"];
  try {
    return run("npx", ["--yes", packageManager, "--dir", root, ...args], { cwd, env, stdio });
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** Asks the pinned Node for its version: an installation that was interrupted can leave the package without its binary. */
function hasPinnedNode() {
  const node = spawnSync(join(bin, windows ? "node.cmd" : "node"), ["--version"], {
    encoding: "utf8",
    shell: windows,
  });
  return node.stdout?.trim() === `v${devDependencies.node}`;
}

function install() {
  const key = installationKey();
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === key && hasPinnedNode()) return 0;
  rmSync(stamp, { force: true });
  console.error(`Installing with ${packageManager} (first run, or the lockfile changed) …`);
  let status = runPnpm("install", "--frozen-lockfile");
  if (status === 0 && !hasPinnedNode()) status = runPnpm("rebuild", "node");
  if (status === 0 && !hasPinnedNode()) {
    console.error(`Node ${devDependencies.node} did not install: remove node_modules and try again`);
    status = 1;
  }
  if (status === 0) writeFileSync(stamp, key);
  return status;
}

const [script, ...args] = process.argv.slice(2);
if (script === undefined) {
  console.error("usage: node scripts/bootstrap.mjs <script | --install> [arguments]");
  process.exit(2);
}
const installed = install();
if (installed !== 0 || script === "--install") process.exit(installed);
const env = { ...process.env, PATH: [bin, process.env.PATH].join(delimiter), TURBO_TELEMETRY_DISABLED: "1" };
process.exit(run(join(bin, windows ? "pnpm.cmd" : "pnpm"), ["run", "--silent", script, ...args], { env }));
