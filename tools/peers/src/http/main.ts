/**
 * Known faults of idempotency middleware, looked for in Dovecote and in another package: a line for each. Exit code 1 if a
 * finding is not the expected one.
 *   node src/http/main.ts [--only text]
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";
import express, { type Request, type Response } from "express";
import { EXPECTED } from "./expected.ts";
import { FAULTS, type Fault, type Script, type Served } from "./faults.ts";
import { MIDDLEWARE, type Middleware } from "./middleware.ts";

const { only } = parseArgs({ options: { only: { type: "string" } } }).values;
let [passed, failed] = [0, 0];
for (const fault of FAULTS.filter(({ name }) => only === undefined || name.includes(only))) {
  print(fault.name);
  for (const middleware of MIDDLEWARE) {
    const shown = await shows(fault, middleware);
    const expected = EXPECTED[middleware.name]?.includes(fault.name) ?? false;
    if (shown === expected) passed += 1;
    else failed += 1;
    const surprise = shown === expected ? "" : "  NOT AS EXPECTED";
    print(`  ${middleware.name.padEnd(20)} ${shown ? "has it" : "absent"}${surprise}`);
  }
}
print(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function shows(fault: Fault, middleware: Middleware): Promise<boolean> {
  let runs = 0;
  const arrival = Promise.withResolvers<{ goOn(): void }>();
  const handlers = await middleware.protect(async (request: Request, response: Response) => {
    runs += 1;
    const script = request.body as Script;
    if (script.waits === true) await new Promise<void>((goOn) => arrival.resolve({ goOn }));
    answer(script, response);
  });
  const orders = express.Router().post("/orders", ...handlers);
  const app = express().set("env", "test").use(express.json());
  app.use(orders).use("/v1", orders).use("/v2", orders);
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const served: Served = {
    url: `http://127.0.0.1:${port}`,
    runs: () => runs,
    waiting: () => arrival.promise,
  };
  try {
    return await fault.shows(served);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function answer({ status = 200, headers = {}, body = "", by = "send" }: Script, response: Response): void {
  const bytes = Buffer.from(body, "base64");
  response.status(status).set(headers);
  if (by === "send") response.send(bytes);
  else if (by === "end") response.end(bytes);
  else Readable.from([bytes]).pipe(response);
}
