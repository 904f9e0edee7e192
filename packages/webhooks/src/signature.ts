/** Signatures by Standard Webhooks, of the package `standardwebhooks`. */
import { createHash } from "node:crypto";
import {
  checkOptions,
  type DeliveryContext,
  DovecoteError,
  type OutboxEvent,
  Quarantine,
} from "@dovecote/core";
import { Webhook } from "standardwebhooks";

/** The package takes a base64 text without its padding, too; libraries for other languages do not. */
const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** By the specification of Standard Webhooks, section "Signature scheme". */
const KEY_BYTES = { min: 24, max: 64 };
const MAX_SECRETS = 10;

// Keeps a byte order mark, which is part of what is signed.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class Signer {
  readonly #webhooks: readonly Webhook[];

  /** @throws `INVALID_ARGUMENT`, which shows no secret. */
  constructor(given: unknown, path: string) {
    const { secrets } = checkOptions(given, ["secrets"], path);
    const at = `${path}.secrets`;
    if (!Array.isArray(secrets) || secrets.length < 1 || secrets.length > MAX_SECRETS)
      throw refused(at, `must be a list of 1 to ${MAX_SECRETS} secrets`);
    this.#webhooks = secrets.map((secret, index) => toWebhook(secret, `${at}[${index}]`));
  }

  /** The headers that prove who sent a body, and when. */
  headers(
    event: OutboxEvent,
    { tenant }: DeliveryContext,
    body: Uint8Array,
    now: Date,
  ): Record<string, string> {
    const id = webhookId(tenant, event);
    const text = textOf(body);
    return {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
      "webhook-signature": this.#webhooks.map((webhook) => webhook.sign(id, now, text)).join(" "),
    };
  }
}

/**
 * The same for every delivery of an event, and another for every other event: a digest of its identity. The JSON array
 * frames the three parts; a digest has no full stop, which would blur what is signed.
 */
export function webhookId(tenant: string, { source, id }: Pick<OutboxEvent, "source" | "id">): string {
  const digest = createHash("sha256").update(JSON.stringify([tenant, source, id]));
  return `msg_${digest.digest("base64url")}`;
}

/** The package signs and verifies texts; bytes that are none it would change, and sign what was not sent. */
function textOf(body: Uint8Array): string {
  try {
    return decoder.decode(body);
  } catch {
    throw new Quarantine('data that is not UTF-8 cannot be signed as it is: send it with mode "structured"');
  }
}

function toWebhook(secret: unknown, path: string): Webhook {
  if (typeof secret !== "string" || !SECRET.test(secret))
    throw refused(path, "must be whsec_ and a base64 text, padded");
  const bytes = Buffer.from(secret.slice("whsec_".length), "base64").length;
  if (bytes < KEY_BYTES.min || bytes > KEY_BYTES.max)
    throw refused(path, `must hold ${KEY_BYTES.min} to ${KEY_BYTES.max} bytes, holds ${bytes}`);
  return new Webhook(secret);
}

function refused(path: string, reason: string): DovecoteError {
  return new DovecoteError("INVALID_ARGUMENT", `${path} ${reason}`, { path });
}
