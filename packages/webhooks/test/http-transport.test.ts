import { once } from "node:events";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { DovecoteError, fromHttp, Quarantine, RetryLater } from "@dovecote/core";
import { CloudEvent, HTTP } from "cloudevents";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { httpTransport } from "../src/index.ts";
import { failureOf, type Receiver, someContext, someEvent, startReceiver, status } from "./receiver.ts";

const DAY = 24 * 3_600_000;
let receiver: Receiver;

beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

describe("requests", () => {
  it("are a POST of the structured mode, with the fence", async () => {
    await httpTransport({ url: `${receiver.url}/hooks?a=1` })(someEvent(), someContext({}, 3));
    const [request] = receiver.requests;
    expect(request).toMatchObject({ method: "POST", url: "/hooks?a=1" });
    expect(request?.headers).toMatchObject({
      "content-type": "application/cloudevents+json; charset=utf-8",
      "dovecote-fence": "7.3",
      "user-agent": "dovecote-webhooks",
    });
    expect(request?.headers).not.toHaveProperty("webhook-id");
    expect(fromHttp(request?.rawHeaders ?? [], request?.body)).toEqual(someEvent());
  });

  it("are percent-encoded in the binary mode, and read by the cloudevents package", async () => {
    const event = someEvent({ subject: 'Euro € 😀, "100%"', partitionkey: "k" });
    await httpTransport({ url: receiver.url, mode: "binary" })(event, someContext());
    const [request] = receiver.requests;
    expect(request?.headers).toMatchObject({
      "ce-id": "order-17",
      "ce-subject": "Euro%20%E2%82%AC%20%F0%9F%98%80,%20%22100%25%22",
      "content-type": "application/json",
      "content-length": "12",
    });
    expect(fromHttp(request?.rawHeaders ?? [], request?.body)).toEqual({
      ...event,
      datacontenttype: "application/json",
    });
    const read = HTTP.toEvent<unknown>({ headers: request?.headers ?? {}, body: String(request?.body) });
    if (Array.isArray(read)) throw new Error("a single event was sent");
    expect(new CloudEvent({ ...read }, true)).toMatchObject({ id: "order-17", data: { order: 17 } });
  });

  it("have no body where the binary mode has no data", async () => {
    const { data: _, ...absent } = someEvent({ dataKind: "absent", dataBytes: new Uint8Array() });
    await httpTransport({ url: receiver.url, mode: "binary" })({ ...absent, data: undefined }, someContext());
    expect(receiver.requests[0]).toMatchObject({ body: Buffer.alloc(0) });
    expect(receiver.requests[0]?.headers).toMatchObject({ "content-length": "0" });
    expect(receiver.requests[0]?.headers).not.toHaveProperty("content-type");
  });

  it("carry the headers of the endpoint, given or made for the event", async () => {
    await httpTransport({
      url: receiver.url,
      headers: { Authorization: "Bearer one", "User-Agent": "shop" },
    })(someEvent(), someContext());
    const made = httpTransport({
      url: receiver.url,
      headers: async ({ id }, { attempt }) => ({ authorization: `Bearer ${id} ${attempt}` }),
    });
    await made(someEvent(), someContext({}, 2));
    const [given, second] = receiver.requests;
    expect(given?.headers).toMatchObject({ authorization: "Bearer one", "user-agent": "shop" });
    expect(second?.headers).toMatchObject({ authorization: "Bearer order-17 2" });
  });

  it("go to the endpoint of the stream, and an unknown stream is quarantined", async () => {
    const deliver = httpTransport({
      mode: "binary",
      byStream: {
        orders: { url: `${receiver.url}/orders`, headers: { authorization: "for orders" } },
        mail: { url: `${receiver.url}/mail`, mode: "structured" },
      },
    });
    await deliver(someEvent(), someContext({ stream: "orders" }));
    await deliver(someEvent(), someContext({ stream: "mail" }));
    const [orders, mail] = receiver.requests;
    expect(orders).toMatchObject({
      url: "/orders",
      headers: { "ce-id": "order-17", authorization: "for orders" },
    });
    expect(mail).toMatchObject({
      url: "/mail",
      headers: { "content-type": expect.stringContaining("cloudevents+json") },
    });
    expect(mail?.headers).not.toHaveProperty("authorization");
    for (const stream of ["others", "constructor", "__proto__"]) {
      const failure = await failureOf(deliver(someEvent(), someContext({ stream })));
      expect(failure).toBeInstanceOf(Quarantine);
      expect(failure.message).toBe(`there is no endpoint for the stream "${stream}"`);
    }
    expect(receiver.requests).toHaveLength(2);
  });

  it("take the fetch that they are given", async () => {
    const urls: unknown[] = [];
    const deliver = httpTransport({
      url: receiver.url,
      fetch: async (url) => {
        urls.push(url);
        return new Response(null, { status: 202 });
      },
    });
    await deliver(someEvent(), someContext());
    expect(urls).toEqual([`${receiver.url}/`]);
    expect(receiver.requests).toHaveLength(0);
  });
});

describe("what an answer means", () => {
  it.each([200, 201, 202, 204, 299])("%i is delivered", async (code) => {
    receiver.answer = status(code, {}, code === 204 ? "" : "thanks");
    await httpTransport({ url: receiver.url })(someEvent(), someContext());
    expect(receiver.requests).toHaveLength(1);
  });

  it.each([408, 425, 429, 500, 501, 502, 503, 504, 599])("%i is tried again", async (code) => {
    receiver.answer = status(code, {}, "not\n\tnow");
    const failure = await failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
    expect(failure).toMatchObject({
      name: "HttpDeliveryError",
      code: `HTTP_${code}`,
      message: `${receiver.url} answered ${code}: not now`,
    });
  });

  it.each([400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 431, 451, 499])(
    "%i is quarantined",
    async (code) => {
      receiver.answer = status(code, { "retry-after": "5" }, "no");
      const failure = await failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
      expect(failure).toBeInstanceOf(Quarantine);
      expect(failure.message).toBe(`${receiver.url} answered ${code}: no`);
    },
  );

  it.each([300, 301, 302, 303, 304, 307, 308])("%i is quarantined, and not followed", async (code) => {
    receiver.answer = status(code, { location: "/elsewhere" });
    const failure = await failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
    expect(failure).toBeInstanceOf(Quarantine);
    expect(failure.message).toBe(
      `${receiver.url} answered ${code} (a redirect, which is never followed: change the URL of the endpoint)`,
    );
    expect(receiver.requests.map(({ url }) => url)).toEqual(["/"]);
  });

  it("a redirect that fetch hides is one as well", async () => {
    const hidden = Object.defineProperty(Response.error(), "type", { value: "opaqueredirect" });
    const deliver = httpTransport({ url: receiver.url, fetch: async () => hidden });
    expect(await failureOf(deliver(someEvent(), someContext()))).toBeInstanceOf(Quarantine);
  });
});

describe("Retry-After", () => {
  const retryAfter = async (code: number, value: string): Promise<Error & Record<string, unknown>> => {
    receiver.answer = status(code, { "retry-after": value }, "later");
    return failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
  };

  it.each([429, 503])("delays the next attempt after %i, in seconds", async (code) => {
    const failure = await retryAfter(code, "120");
    expect(failure).toBeInstanceOf(RetryLater);
    expect(failure).toMatchObject({
      delayMs: 120_000,
      code: `HTTP_${code}`,
      message: `${receiver.url} answered ${code}: later`,
    });
  });

  it("may be a date", async () => {
    const failure = await retryAfter(503, new Date(Date.now() + 3_600_000).toUTCString());
    expect(failure.delayMs).toBeGreaterThan(3_500_000);
    expect(failure.delayMs).toBeLessThanOrEqual(3_600_000);
  });

  it("never delays for more than 30 days", async () => {
    expect(await retryAfter(429, String(365 * 86_400))).toMatchObject({ delayMs: 30 * DAY });
    expect(await retryAfter(429, "9".repeat(400))).toMatchObject({ delayMs: 30 * DAY });
  });

  it.each(["0", "soon", "-1", "1.5", "Sun, 06 Nov 1994 08:49:37 GMT"])(
    "of %s leaves the delay to the relay",
    async (value) => {
      expect(await retryAfter(503, value)).toMatchObject({ name: "HttpDeliveryError", code: "HTTP_503" });
    },
  );

  it("is not looked at after other answers", async () => {
    expect(await retryAfter(500, "120")).toMatchObject({ name: "HttpDeliveryError" });
  });

  it("does not keep the pauses from growing", async () => {
    expect(await retryAfter(503, "1")).toMatchObject({ delayMs: 1000, atLeast: true });
  });
});

describe("no answer", () => {
  it("in time is tried again", async () => {
    receiver.answer = () => {};
    const failure = await failureOf(
      httpTransport({ url: receiver.url, timeoutMs: 50 })(someEvent(), someContext()),
    );
    expect(failure).toMatchObject({
      code: "HTTP_TIMEOUT",
      message: `${receiver.url} did not answer within 50 ms`,
    });
  });

  it("since the headers are not there in time is tried again, and nothing is sent", async () => {
    const headers = (): Promise<never> => new Promise(() => {});
    const deliver = httpTransport({ url: receiver.url, headers, timeoutMs: 50 });
    expect(await failureOf(deliver(someEvent(), someContext()))).toMatchObject({ code: "HTTP_TIMEOUT" });
    expect(receiver.requests).toEqual([]);
  });

  it("since the relay gave up meanwhile ends at once", async () => {
    const lost = new AbortController();
    const headers = (): Promise<never> => {
      lost.abort(new Error("the claim was lost"));
      return new Promise(() => {});
    };
    const deliver = httpTransport({ url: receiver.url, headers });
    const failure = await failureOf(deliver(someEvent(), { ...someContext(), signal: lost.signal }));
    expect(failure.message).toBe("the claim was lost");
  });

  it("because nobody listens is tried again", async () => {
    const { url } = receiver;
    await receiver.close();
    const failure = await failureOf(httpTransport({ url })(someEvent(), someContext()));
    expect(failure).toMatchObject({ name: "HttpDeliveryError", code: "ECONNREFUSED" });
    expect(failure.message).toContain(`${url} gave no answer: ECONNREFUSED`);
    receiver = await startReceiver();
  });

  it("because the connection breaks is tried again", async () => {
    receiver.answer = (response) => response.destroy();
    const failure = await failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
    expect(failure).toMatchObject({ name: "HttpDeliveryError", code: "UND_ERR_SOCKET" });
  });

  it("because the other side speaks no TLS is tried again", async () => {
    const url = receiver.url.replace("http:", "https:");
    const failure = await failureOf(httpTransport({ url })(someEvent(), someContext()));
    expect(failure).toMatchObject({ name: "HttpDeliveryError" });
    expect(failure.code).toMatch(/SSL/);
  });

  it("that is HTTP is tried again", async () => {
    const server = createTcpServer((socket) =>
      socket.on("data", () => socket.end("hello\r\n\r\n")).on("error", () => {}),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const failure = await failureOf(httpTransport({ url })(someEvent(), someContext()));
    server.close();
    expect(failure).toMatchObject({ name: "HttpDeliveryError" });
    expect(failure.code).toMatch(/^HPE_/);
  });
});

describe("an aborted delivery", () => {
  const lost = new DovecoteError("LOST_CLAIM", "the claim of row 7 was lost");

  it("ends at once, with the reason, and its request with it", async () => {
    const controller = new AbortController();
    const ended = new Promise<void>((resolve) => {
      receiver.answer = (response) => {
        response.on("close", resolve);
        controller.abort(lost);
      };
    });
    const deliver = httpTransport({ url: receiver.url });
    expect(await failureOf(deliver(someEvent(), someContext({ signal: controller.signal })))).toBe(lost);
    await ended;
  });

  it("that was aborted before sends nothing", async () => {
    const deliver = httpTransport({ url: receiver.url });
    expect(await failureOf(deliver(someEvent(), someContext({ signal: AbortSignal.abort(lost) })))).toBe(
      lost,
    );
    expect(receiver.requests).toHaveLength(0);
  });

  it("leaves no listener behind", async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const counted = new Proxy(signal, {
      get(target, name) {
        if (name === "addEventListener") listeners += 1;
        if (name === "removeEventListener") listeners -= 1;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const deliver = httpTransport({ url: receiver.url });
    await deliver(someEvent(), someContext({ signal: counted }));
    receiver.answer = status(500);
    await failureOf(deliver(someEvent(), someContext({ signal: counted })));
    expect(listeners).toBe(0);
  });
});

describe("the body of an answer", () => {
  it("is shown up to 500 characters", async () => {
    receiver.answer = status(500, {}, "x".repeat(2000));
    const { message } = await failureOf(httpTransport({ url: receiver.url })(someEvent(), someContext()));
    expect(message).toBe(`${receiver.url} answered 500: ${"x".repeat(500)}`);
  });

  it.each([200, 400, 500])("without an end, after %i, is cancelled after 64 KiB", async (code) => {
    let sent = 0;
    let cancelled = false;
    const endless = new ReadableStream({
      pull(stream) {
        sent += 1024;
        stream.enqueue(new Uint8Array(1024).fill(0x78));
      },
      cancel() {
        cancelled = true;
      },
    });
    const deliver = httpTransport({
      url: receiver.url,
      fetch: async () => new Response(endless, { status: code }),
    });
    await Promise.allSettled([deliver(someEvent(), someContext())]);
    expect(cancelled).toBe(true);
    expect(sent).toBeGreaterThanOrEqual(64 * 1024);
    expect(sent).toBeLessThan(70 * 1024);
  });

  it("that goes on and on is stopped at its sender", async () => {
    const stopped = new Promise<void>((resolve) => {
      receiver.answer = (response) => {
        response
          .writeHead(200)
          .on("close", resolve)
          .on("error", () => {});
        const more = (): void => {
          while (!response.destroyed && response.write("x".repeat(16_384)));
        };
        response.on("drain", more);
        more();
      };
    });
    await httpTransport({ url: receiver.url })(someEvent(), someContext());
    await stopped;
  });

  it("that never ends does not hold back the outcome", async () => {
    const deliver = httpTransport({ url: receiver.url });
    receiver.answer = (response) => response.writeHead(200).write("thanks");
    await deliver(someEvent(), someContext());
    receiver.answer = (response) => response.writeHead(503).write("busy");
    const failure = await failureOf(deliver(someEvent(), someContext()));
    expect(failure.message).toBe(`${receiver.url} answered 503: busy`);
  });

  it("that breaks off does not change the outcome", async () => {
    receiver.answer = (response) =>
      response.writeHead(200, { "content-length": "10" }).write("x", () => response.destroy());
    await httpTransport({ url: receiver.url })(someEvent(), someContext());
  });

  it("is read to its end, so that the connection is used again", async () => {
    const deliver = httpTransport({ url: receiver.url });
    const codes = [200, 500, 404, 302, 204, 200, 201, 503, 429, 410, 307, 200];
    for (const code of codes) {
      receiver.answer = status(code, {}, code === 204 ? "" : "x".repeat(10_000));
      await Promise.allSettled([deliver(someEvent(), someContext())]);
    }
    expect(receiver.requests).toHaveLength(codes.length);
    // Not 1: fetch may open another one while the first is still being put back.
    expect(receiver.connections).toBeLessThan(4);
  });
});

describe("secrets", () => {
  const token = "s3cr3t-t0ken";
  const hook = "T0/B0/webhook-path";
  const texts = (failure: Error): string =>
    `${failure.message} ${failure.stack} ${JSON.stringify(failure)} ${failure.cause}`;

  it.each([500, 404, 302, 429])(
    "are not part of a failure by %i, even if the receiver quotes them",
    async (code) => {
      receiver.answer = (response, { headers, url }) =>
        response
          .writeHead(code, { "retry-after": "9" })
          .end(JSON.stringify({ headers, url, bearer: headers.authorization?.slice(7) }));
      const deliver = httpTransport({
        url: `${receiver.url}/${hook}?key=${token}-in-query`,
        headers: { authorization: `Bearer ${token}`, "x-api-key": `${token}-as-key` },
      });
      const failure = await failureOf(deliver(someEvent(), someContext()));
      expect(failure.message).toContain("[redacted]");
      expect(texts(failure)).not.toContain(token);
      expect(texts(failure)).not.toContain(hook);
    },
  );

  it("are not part of what a fetch of your own throws before it begins", async () => {
    const throwing = (() => {
      throw new Error(`no proxy for ${token}`);
    }) as typeof fetch;
    const deliver = httpTransport({
      url: receiver.url,
      headers: { authorization: token },
      fetch: throwing,
    });
    const failure = await failureOf(deliver(someEvent(), someContext()));
    expect(failure).toMatchObject({ code: "HTTP_NETWORK" });
    expect(texts(failure)).not.toContain(token);
  });

  it("are not part of a failure of the network", async () => {
    const { url } = receiver;
    await receiver.close();
    const deliver = httpTransport({ url: `${url}/${hook}?key=${token}`, headers: { authorization: token } });
    const failure = await failureOf(deliver(someEvent(), someContext()));
    receiver = await startReceiver();
    expect(failure.message).toContain(url);
    expect(texts(failure)).not.toContain(token);
    expect(texts(failure)).not.toContain(hook);
  });

  it("are not part of what a fetch of one's own throws", async () => {
    const deliver = httpTransport({
      url: `${receiver.url}/${hook}`,
      headers: { authorization: `Basic ${token}` },
      fetch: async (url, init) => {
        throw new TypeError("fetch failed", { cause: new Error(`${url} ${JSON.stringify(init?.headers)}`) });
      },
    });
    const failure = await failureOf(deliver(someEvent(), someContext()));
    expect(failure).toMatchObject({ code: "HTTP_NETWORK" });
    expect(texts(failure)).not.toContain(token);
    expect(texts(failure)).not.toContain(hook);
  });

  it("are not part of the refusal of headers that were made for an event", async () => {
    const deliver = httpTransport({ url: receiver.url, headers: () => ({ authorization: `${token}\n` }) });
    const failure = await failureOf(deliver(someEvent(), someContext()));
    expect(failure).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(texts(failure)).not.toContain(token);
  });
});
