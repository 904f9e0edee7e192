/** Stands between a client and the server, and can fall silent as a network does: nothing arrives, and nothing is closed. */

import type { AddressInfo } from "node:net";
import { connect, createServer, type Server, type Socket } from "node:net";

export interface SilentProxy {
  /** The given URL, by way of the proxy. */
  readonly url: string;
  /** Connections of now fall silent; later ones work. */
  silence(): void;
  close(): Promise<void>;
}

export async function startProxy(serverUrl: string): Promise<SilentProxy> {
  const target = new URL(serverUrl);
  const pairs = new Set<readonly [Socket, Socket]>();
  const silent = new WeakSet<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const [from, to] of [pair, [far, near]] as const) {
      from.on("data", (bytes) => silent.has(near) || to.write(bytes));
      from.on("error", () => {}); // its close follows
      from.on("close", () => {
        pairs.delete(pair);
        // The server ends its side of a silent connection, and the client must not hear of it.
        if (!silent.has(near) || from === near) to.destroy();
      });
    }
  });
  const { port } = await listening(server);
  const url = new URL(serverUrl);
  url.hostname = "127.0.0.1";
  url.port = String(port);
  return {
    url: String(url),
    silence() {
      for (const [near] of pairs) silent.add(near);
    },
    close() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      return new Promise((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}

function listening(server: Server): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve(server.address() as AddressInfo));
  });
}
