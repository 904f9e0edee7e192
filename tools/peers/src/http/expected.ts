/** Which faults are found in which package. */
export const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  Dovecote: [],
  "express-idempotency": [
    "a handler that answers 204 runs twice, or is never answered again",
    "two routers mounted at different prefixes answer for each other",
    "answers by end() or a stream never complete",
    "user B gets user A's answer",
    "a replayed 201 has lost its Location",
  ],
};
