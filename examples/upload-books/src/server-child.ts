/** A server in a process of its own. It stalls where it is told to, so that it can be killed there. */
import type { AddressInfo } from "node:net";
import { openLibrary } from "./library.ts";
import { createBookServer } from "./server.ts";
import type { Said, Stage } from "./servers.ts";

const [folder = "", stallAt = "", bytes = "0"] = process.argv.slice(2);
const never = new Promise<never>(() => {});

/** The most memory that it ever had, in bytes. */
function peak(): number {
  return process.resourceUsage().maxRSS * 1024;
}

function say(said: Said): void {
  process.send?.(said);
}

async function reached(stage: Stage): Promise<void> {
  if (stage !== stallAt) return;
  say({ stage, peak: peak() });
  await never;
}

const library = await openLibrary(folder);
const server = createBookServer(library, {
  receiving: async (received) => (received >= Number(bytes) ? reached("receiving") : undefined),
  committed: () => reached("committed"),
});
server.listen(0, "127.0.0.1", () => {
  say({ stage: "listening", port: (server.address() as AddressInfo).port, peak: peak() });
});
process.on("disconnect", () => server.close(() => library.close()));
