/** A client of the server in the http package's README: copied beside the packed install, and run there. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** One order, sent twice, and then the server closes. @throws if it was not created and then replayed. */
export async function askTwice(server: Server): Promise<void> {
  if (!server.listening) await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  for (const said of ["created", "replayed"]) {
    const response = await fetch(`http://127.0.0.1:${port}/orders`, {
      method: "POST",
      body: '{"title":"Dune"}',
      headers: { "idempotency-key": '"8e03978e"' },
    });
    const { status, headers } = response;
    const found = `${status} ${headers.get("idempotency-status")} ${headers.get("location")} ${await response.text()}`;
    if (found !== `201 ${said} /orders/1 {"id":1,"title":"Dune"}`) throw new Error(found);
  }
  server.close();
}
