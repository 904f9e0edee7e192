/** Keeps what was sent in confidence out of failures, also where a receiver quotes it. */
import type { Redact } from "@dovecote/core";

/** Shorter ones are no secrets, and would riddle a text. */
const SHORTEST = 6;
const SHOWN_CHARS = 500;

/** Makes the start of a text one line, without any of the secrets, and without each word of them. */
export function redactor(secrets: () => Iterable<string>): Redact {
  return (text) => {
    const parts = [...secrets()].flatMap((secret) => [secret, ...secret.split(/\s+/)]);
    const found = [...new Set(parts)]
      .filter((part) => part.length >= SHORTEST)
      .sort((a, b) => b.length - a.length);
    // Redacted before it is cut: half a secret would not be found.
    const clean = found.reduce((rest, part) => rest.replaceAll(part, "[redacted]"), text);
    return clean
      .replace(/[\s\p{Cc}]+/gu, " ")
      .trim()
      .slice(0, SHOWN_CHARS);
  };
}
