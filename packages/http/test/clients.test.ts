/** Clients that are no fetch: undici, and sockets that send what no client library would. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { KINDS } from "./apps.ts";
import { createSpace, post, problemOf, type Running, serve, statusOf } from "./fixtures.ts";
import { DRIVERS } from "./stores.ts";

/** Sends bytes as they are, and reads until the server closes the connection. */
async function sendRaw({ url }: Running, lines: readonly string[], body = "{}"): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  const pieces: Buffer[] = [];
  socket.on("data", (piece) => pieces.push(piece));
  const closed = once(socket, "close");
  const head = [
    "POST /orders HTTP/1.1",
    "Host: localhost",
    "Connection: close",
    "Content-Type: application/json",
  ];
  socket.write([...head, `Content-Length: ${body.length}`, ...lines, "", body].join("\r\n"), "latin1");
  await closed;
  return Buffer.concat(pieces).toString("latin1");
}

describe.each(KINDS)("%s", (kind) => {
  it.each([
    ["two lines of different keys", ['Idempotency-Key: "a"', 'Idempotency-Key: "b"']],
    ["two lines of one key", ["Idempotency-Key: a", "idempotency-key: a"]],
    ["two keys on a line", ['Idempotency-Key: "a", "b"']],
    ["an empty line", ["Idempotency-Key:"]],
    ["spaces", ["Idempotency-Key:    "]],
    ["an empty key", ['Idempotency-Key: ""']],
    ["no closing quote", ['Idempotency-Key: "a']],
    ["something after the key", ['Idempotency-Key: "a" b']],
    ["a list", ["Idempotency-Key: (a b)"]],
    ["a key that is not ASCII", ['Idempotency-Key: "\u00e9"']],
    ["a bare key that is not ASCII", ["Idempotency-Key: \u00e9"]],
    ["a tab within the key", ['Idempotency-Key: "a\tb"']],
    ["a key of 256 bytes", [`Idempotency-Key: "${"k".repeat(256)}"`]],
  ])("answers 400 to %s, and calls no handler", async (_, lines) => {
    const server = await serve(kind, await createSpace("SQLite"));
    const answer = await sendRaw(server, lines);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toMatch(/^content-type: application\/problem\+json\r$/im);
    expect(answer).toContain('"code":"key-malformed"');
    expect(server.calls()).toBe(0);
  });

  it("is spared control characters by the server", async () => {
    const server = await serve(kind, await createSpace("SQLite"));
    expect(await sendRaw(server, ["Idempotency-Key: a\u0001b"])).toMatch(/^HTTP\/1\.1 400 /);
    expect(await sendRaw(server, ["Idempotency-Key: a\u0000b"])).toMatch(/^HTTP\/1\.1 400 /);
    expect(server.calls()).toBe(0);
  });

  it("takes a bare key and a quoted one, with parameters or without, for one key", async () => {
    const server = await serve(kind, await createSpace("SQLite"));
    for (const line of ["a", '"a"', '  "a"  ', '"a";v=1']) {
      expect(await sendRaw(server, [`Idempotency-Key: ${line}`])).toMatch(/^HTTP\/1\.1 201 /);
    }
    expect(server.calls()).toBe(1);
  });

  it("takes no bare key where it is strict", async () => {
    const server = await serve(kind, await createSpace("SQLite"), { strict: true });
    for (const other of ["a", ":YQ==:", "1"]) {
      expect((await problemOf(await post(server, other, {}))).code).toBe("key-malformed");
    }
    expect(statusOf(await post(server, '"a"', {}))).toBe("created");
  });

  it("compares what a query says, not how, and no trick of it passes for another", async () => {
    const server = await serve(kind, await createSpace("SQLite"));
    const key = randomUUID();
    const ask = async (query: string) => statusOf(await post(server, key, {}, { path: `/orders${query}` }));
    expect(await ask("?a=&a=b&c=1")).toBe("created");
    for (const same of ["?c=1&a=&a=b", "?a=&a=%62&c=1"]) expect(await ask(same)).toBe("replayed");
    for (const other of ["", "?a=b&a=&c=1", "?a=&a=b", "?a=%26a%3Db&c=1", "?a=&a=b&c=1&c=1"]) {
      expect(await ask(other)).toBe("mismatch");
    }
  });

  it.each(DRIVERS)("answers undici the same twice on %s", async (driver) => {
    const server = await serve(kind, await createSpace(driver));
    const send = async () => {
      const { statusCode, headers, body } = await request(`${server.url}/orders`, {
        method: "POST",
        headers: { "idempotency-key": '"a"', "content-type": "application/json" },
        body: JSON.stringify({
          body: "AP+A",
          headers: [
            ["link", "<a>"],
            ["link", "<b>"],
          ],
        }),
      });
      return {
        statusCode,
        link: headers.link,
        status: headers["idempotency-status"],
        bytes: await body.bytes(),
      };
    };
    const [first, again] = [await send(), await send()];
    expect([...first.bytes]).toEqual([0, 255, 128]);
    expect([first.status, again.status]).toEqual(["created", "replayed"]);
    expect({ ...again, status: "" }).toEqual({ ...first, status: "" });
  });
});
