/** Bodies that are not held in memory: compared by what is declared of them, and verified as they pass. */
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { idempotent as fetchGate } from "../src/fetch.ts";
import { createSpace, post, problemOf, type Running, serve } from "./fixtures.ts";

const RECORD = { mode: "record", takeover: "rerun" } as const;
const FILE = "x".repeat(200_000);

type Part = readonly [name: string, value: string, filename?: string];

function multipart(boundary: string, parts: readonly Part[]): string {
  const written = parts.map(([name, value, filename]) => {
    const disposition = `content-disposition: form-data; name="${name}"`;
    return filename === undefined
      ? `--${boundary}\r\n${disposition}\r\n\r\n${value}\r\n`
      : `--${boundary}\r\n${disposition}; filename="${filename}"\r\ncontent-type: application/pdf\r\n\r\n${value}\r\n`;
  });
  return `${written.join("")}--${boundary}--\r\n`;
}

function upload(
  server: Running,
  key: string,
  parts: readonly Part[],
  boundary = randomUUID(),
): Promise<Response> {
  const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
  return post(server, key, {}, { text: multipart(boundary, parts), headers });
}

async function codeOf(response: Response): Promise<string> {
  return (await problemOf(response)).code;
}

describe.each(["fetch", "node"] as const)("uploads to %s", (kind) => {
  const serveFields = async () =>
    serve(kind, await createSpace("SQLite"), { fingerprint: { fields: ["title"] } }, RECORD);
  const title: Part = ["title", "Dune"];
  const file: Part = ["file", FILE, "dune.pdf"];

  it("are the same by their declared fields and the declared name and type of their file", async () => {
    const server = await serveFields();
    const key = randomUUID();
    const first = await upload(server, key, [title, ["note", "first"], file]);
    expect(await first.text()).toBe("read");
    const again = await upload(server, key, [
      ["note", "again"],
      title,
      ["file", "other bytes", "dune.pdf"],
      ["note", "late"],
    ]);
    expect(again.headers.get("idempotency-status")).toBe("replayed");
    expect(await codeOf(await upload(server, key, [["title", "Dune 2"], file]))).toBe("mismatch");
    expect(await codeOf(await upload(server, key, [title, ["file", FILE, "dune-2.pdf"]]))).toBe("mismatch");
  });

  it("are refused if a declared field comes after the file, and the key can be used again", async () => {
    const server = await serveFields();
    const key = randomUUID();
    const late = await upload(server, key, [file, title]);
    expect(late.status).toBe(400);
    expect(await codeOf(late)).toBe("field-after-file");
    expect((await upload(server, key, [title, file])).headers.get("idempotency-status")).toBe("created");
  });

  it("are refused if they are no multipart body, or break off in one", async () => {
    const server = await serveFields();
    expect(await codeOf(await post(server, "a", {}))).toBe("media-type-unsupported");
    const boundary = randomUUID();
    const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
    const text = multipart(boundary, [title, file]).slice(0, -100);
    expect(await codeOf(await post(server, "b", {}, { text, headers }))).toBe("multipart-malformed");
  });

  it("are the same by their Content-Digest, which is verified as they pass", async () => {
    const server = await serve(kind, await createSpace("SQLite"), { fingerprint: "content-digest" }, RECORD);
    const digest = (text: string) => `sha-256=:${createHash("sha256").update(text).digest("base64")}:`;
    const send = (key: string, text: string, declared: string | undefined) =>
      post(server, key, {}, { text, headers: declared === undefined ? {} : { "content-digest": declared } });
    expect((await send("a", FILE, digest(FILE))).status).toBe(201);
    expect((await send("a", FILE, digest(FILE))).headers.get("idempotency-status")).toBe("replayed");
    expect(await codeOf(await send("a", "other", digest("other")))).toBe("mismatch");
    expect(await codeOf(await send("b", FILE, undefined))).toBe("digest-missing");
    expect(await codeOf(await send("b", FILE, digest("other")))).toBe("digest-mismatch");
    expect((await send("b", FILE, digest(FILE))).headers.get("idempotency-status")).toBe("created");
  });

  it("that are aborted give their key back", async () => {
    const server = await serveFields();
    const boundary = randomUUID();
    const body = multipart(boundary, [title, file]);
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    await once(socket, "connect");
    socket.write(
      [
        "POST /orders HTTP/1.1",
        "host: localhost",
        'idempotency-key: "a"',
        `content-type: multipart/form-data; boundary=${boundary}`,
        `content-length: ${body.length}`,
        "",
        body.slice(0, 100_000),
      ].join("\r\n"),
    );
    while (server.calls() === 0) await setImmediate();
    expect(await codeOf(await upload(server, "a", [title, file]))).toBe("in-flight");
    socket.destroy();
    let status: number;
    do status = (await upload(server, "a", [title, file], boundary)).status;
    while (status === 409);
    expect(status).toBe(201);
    expect(server.counts()).toMatchObject({ aborted: 1, created: 1 });
  });
});

it("no synchronous transaction waits for an upload, and its developer is told at the first one", async () => {
  const space = await createSpace("SQLite");
  const safely = fetchGate(space.store, { principal: () => null, fingerprint: { fields: ["title"] } });
  const handle = safely((_, { tx }) => {
    space.effect(tx, "a");
    return { status: 201 };
  });
  const body = new FormData();
  body.set("title", "Dune");
  const request = new Request("http://localhost/", {
    method: "POST",
    body,
    headers: { "idempotency-key": "a" },
  });
  await expect(handle(request)).rejects.toMatchObject({ code: "INVALID_ARGUMENT", path: "fingerprint" });
  expect(await space.effects()).toEqual([]);
});
