import { randomBytes } from "node:crypto";
import { Quarantine } from "@dovecote/core";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { httpTransport } from "../src/index.ts";
import { webhookId } from "../src/signature.ts";
import { failureOf, type Receiver, someContext, someEvent, startReceiver } from "./receiver.ts";

const secret = (): string => `whsec_${randomBytes(32).toString("base64")}`;
let receiver: Receiver;

beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(() => receiver.close());

function verify(by: string, at = 0, change = (body: string): string => body): void {
  const { headers, body } = receiver.requests[at] ?? expect.unreachable("nothing was received");
  new Webhook(by).verify(change(String(body)), headers as Record<string, string>, { jsonParse: false });
}

describe("signatures", () => {
  it.each(["binary", "structured"] as const)("verify in the %s mode, and cover the body", async (mode) => {
    const secrets = [secret()];
    await httpTransport({ url: receiver.url, mode, sign: { secrets } })(someEvent(), someContext());
    const [own = ""] = secrets;
    verify(own);
    expect(() => verify(secret())).toThrow(WebhookVerificationError);
    expect(() => verify(own, 0, (body) => body.replace("17", "18"))).toThrow(WebhookVerificationError);
  });

  it("are one for each secret, so that secrets can be changed", async () => {
    const secrets = [secret(), secret()];
    await httpTransport({ url: receiver.url, sign: { secrets } })(someEvent(), someContext());
    for (const each of secrets) verify(each);
    expect(receiver.requests[0]?.headers["webhook-signature"]).toMatch(/^v1,[^ ]+ v1,[^ ]+$/);
  });

  it.each<[string, Uint8Array]>([
    ["nothing", new Uint8Array()],
    ["a byte order mark", new TextEncoder().encode("\uFEFFä")],
  ])("cover %s", async (_, dataBytes) => {
    const own = secret();
    const event = someEvent({ dataKind: "binary", datacontenttype: "image/png", data: dataBytes, dataBytes });
    await httpTransport({ url: receiver.url, mode: "binary", sign: { secrets: [own] } })(
      event,
      someContext(),
    );
    verify(own);
    expect(new Uint8Array(receiver.requests[0]?.body ?? [])).toEqual(dataBytes);
  });

  it("of bytes that are no text are refused in the binary mode, and covered in the structured one", async () => {
    const own = secret();
    const dataBytes = new Uint8Array([0, 200, 255]);
    const event = someEvent({ dataKind: "binary", datacontenttype: "image/png", data: dataBytes, dataBytes });
    const sign = { secrets: [own] };
    const refused = await failureOf(
      httpTransport({ url: receiver.url, mode: "binary", sign })(event, someContext()),
    );
    expect(refused).toBeInstanceOf(Quarantine);
    expect(refused.message).toContain('mode "structured"');
    expect(receiver.requests).toHaveLength(0);
    await httpTransport({ url: receiver.url, sign })(event, someContext());
    verify(own);
  });

  it("name the event by the same id at every delivery", async () => {
    const deliver = httpTransport({ url: receiver.url, sign: { secrets: [secret()] } });
    for (const attempt of [1, 2]) await deliver(someEvent(), someContext({}, attempt));
    const [first, second] = receiver.requests.map(({ headers }) => headers);
    expect(first?.["webhook-id"]).toBe("msg_AfQpJDPwlt5LjjDC-Qr9phtG2-a76PHGVJ8kvA7YnC0");
    expect(second?.["webhook-id"]).toBe(first?.["webhook-id"]);
    expect([first?.["dovecote-fence"], second?.["dovecote-fence"]]).toEqual(["7.1", "7.2"]);
  });
});

describe("webhookId", () => {
  it("tells identities apart", () => {
    const ids = [
      webhookId("default", { source: "/shop", id: "1" }),
      webhookId("acme", { source: "/shop", id: "1" }),
      webhookId("default", { source: "/sho", id: "p1" }),
      webhookId("default", { source: "/shop", id: "2" }),
      webhookId("default", { source: '/shop","1', id: "" }),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^msg_[\w-]{43}$/);
  });
});
