// The conformance suite on libraries that know nothing of it, as black boxes: what of Dovecote's contract they keep, what
// they do not keep, and what they do not have. The findings are committed, and the command fails if they change.
//   node tools/peers/src/main.ts [--peer pg-boss|plainjob] [--only FENCE-01] [--seed N] [--found]
// --found prints the findings as data. Ends with `N passed, N failed`.
import { parseArgs } from "node:util";
import { startServer } from "@dovecote-internal/postgres-server";
import { type Expectation, mismatch, verdict } from "./expectation.ts";
import { expectations as ofPgBoss } from "./expected/pg-boss.ts";
import { expectations as ofPlainjob } from "./expected/plainjob.ts";
import { peerCases, runPeer, titleOf } from "./run-peer.ts";

interface PeerLibrary {
  readonly harness: URL;
  readonly expected: readonly Expectation[];
  readonly postgres: boolean;
}

const PEERS: Readonly<Record<string, PeerLibrary>> = {
  "pg-boss": {
    harness: new URL("./pg-boss/harness.ts", import.meta.url),
    expected: ofPgBoss,
    postgres: true,
  },
  plainjob: {
    harness: new URL("./plainjob/harness.ts", import.meta.url),
    expected: ofPlainjob,
    postgres: false,
  },
};
const SEED = 1;
/** As the server of the other tests is set up. */
const FLAGS = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"];

const { values: options } = parseArgs({
  options: {
    peer: { type: "string" },
    only: { type: "string" },
    seed: { type: "string" },
    found: { type: "boolean", default: false },
  },
});
const names = options.peer === undefined ? Object.keys(PEERS) : [options.peer];
const only = options.only?.split(",");

let passed = 0;
let failed = 0;
for (const name of names) {
  const peer = PEERS[name];
  if (peer === undefined) throw new Error(`--peer: ${name} is none of ${Object.keys(PEERS).join(", ")}`);
  await run(name, peer);
}
print(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function run(name: string, { harness, expected, postgres }: PeerLibrary): Promise<void> {
  const server =
    postgres && process.env.DOVECOTE_TEST_POSTGRES_URL === undefined
      ? await startServer({ flags: FLAGS })
      : undefined;
  if (server !== undefined) process.env.DOVECOTE_TEST_POSTGRES_URL = server.url;
  const byTitle = new Map(expected.map((each) => [each.case, each]));
  print(`\n${name}`);
  try {
    await runPeer(harness, only, Number(options.seed ?? SEED), ({ case: each, outcome }) => {
      const title = titleOf(each);
      if (options.found) {
        print(JSON.stringify({ case: title, is: outcome.kind, says: outcome.message }));
        return;
      }
      const known = byTitle.get(title);
      const wrong = mismatch(known, outcome);
      if (wrong === undefined && known !== undefined) {
        passed += 1;
        const why = outcome.kind === "kept" ? "" : `\n    ${outcome.message}`;
        print(`  ${title}\n    ${verdict(known)}${why}`);
      } else {
        failed += 1;
        print(`  FAILED ${title}\n    ${wrong}`);
      }
    });
  } catch (error) {
    failed += 1;
    print(`  FAILED the run: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    await server?.stop();
  }
  if (only !== undefined) return;
  const titles = new Set(peerCases.map(titleOf));
  for (const each of expected.filter((known) => !titles.has(known.case))) {
    failed += 1;
    print(`  FAILED ${each.case}\n    is expected, and there is no such case`);
  }
}
