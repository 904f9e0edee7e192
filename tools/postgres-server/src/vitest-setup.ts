/** One server per test run. A server of one's own is used instead where `DOVECOTE_TEST_POSTGRES_URL` names it. */
import { startServer, TEST_FLAGS } from "./index.ts";

const URL_VARIABLE = "DOVECOTE_TEST_POSTGRES_URL";

export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[URL_VARIABLE] !== undefined) return undefined;
  const server = await startServer({ flags: TEST_FLAGS });
  process.env[URL_VARIABLE] = server.url;
  return async () => {
    delete process.env[URL_VARIABLE];
    await server.stop();
  };
}
