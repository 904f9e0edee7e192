// The conformance suite's command line on a driver of this repository, with a Postgres server of its own where one is
// needed. Options are those of the command line.
//   node scripts/conformance.ts reference|sqlite|postgres|node-sqlite [options]
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { harnessOf, serveIfNeeded } from "./harnesses.ts";

const cli = fileURLToPath(new URL("../packages/conformance/src/cli.ts", import.meta.url));
const [driver = "", ...options] = process.argv.slice(2);
const harness = fileURLToPath(harnessOf(driver));
const server = await serveIfNeeded([driver]);
const child = spawn(process.execPath, [cli, harness, ...options], { stdio: "inherit" });
child.on("close", async (code) => {
  await server.stop();
  process.exitCode = code ?? 1;
});
