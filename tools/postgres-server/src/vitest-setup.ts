/** One server per test run. A server of one's own is used instead where `DOVECOTE_TEST_POSTGRES_URL` names it. */
import { startServer } from "./index.ts";

const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

/** Tests kill processes, not machines: nothing has to survive a power cut. */
const FLAGS = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"];

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[URL_VARIABLE] !== undefined) return undefined;
  const server = await startServer({ flags: FLAGS });
  process.env[URL_VARIABLE] = server.url;
  return async () => {
    delete process.env[URL_VARIABLE];
    await server.stop();
  };
}
