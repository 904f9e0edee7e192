import type { Entry } from "@dovecote/core";
import { breaking, breakingOutbox } from "./breaking.ts";
import type { SemanticMutant } from "./define.ts";

export const page: readonly SemanticMutant[] = [
  breaking("page-beyond-its-limit", "PAGE-01", /longer than its limit/, (driver) => ({
    page: (request) => driver.page({ ...request, limit: Math.min(1000, request.limit + 1) }),
  })),
  breaking("page-without-delivered-rows", "PAGE-01", /every row once|cursor must/, (driver) => ({
    page: async (request) =>
      (await driver.page(request)).filter(({ delivery }) => delivery?.state !== "delivered"),
  })),
  breaking("page-of-any-stream", "PAGE-01", /stream/, (driver) => ({
    page: (request) => driver.page({ ...request, stream: null }),
  })),
  breaking("page-leaves-damaged-rows-out", "PAGE-02", /silently missing/, (driver) => ({
    page: async (request) => (await driver.page(request)).filter(({ delivery }) => delivery !== null),
  })),
  breaking("reconcile-mends-nothing", "PAGE-02", /reconcile must create|must have a delivery/, () => ({
    reconcile: async () => "reconciled",
  })),
  breaking("snapshot-without-upper-bound", "PAGE-03", /cursor of a snapshot|upper bound/, (driver) => ({
    async snapshot() {
      const snapshot = await driver.snapshot();
      return {
        cursor: snapshot.cursor,
        lastRowId: Number.MAX_SAFE_INTEGER,
        page: (request) => driver.page(request),
        close: () => snapshot.close(),
      };
    },
  })),
  breaking(
    "snapshot-of-the-present",
    "PAGE-03",
    /every row up to its upper bound|state of its start/,
    (driver) => ({
      async snapshot() {
        const snapshot = await driver.snapshot();
        return { ...snapshot, page: (request) => driver.page(request) };
      },
    }),
    { snapshotIsolation: "snapshot" },
  ),
  breaking(
    "tail-steps-over-an-event",
    "PAGE-04",
    /every event after its cursor/,
    (driver) => ({
      async tail(request) {
        const { rows, upTo, ...lag } = await driver.tail(request);
        // It looked no further than it says, but for the event that it steps over.
        return { rows: rows.length > 1 ? rows.slice(1) : rows, upTo: rows.at(-1)?.rowId ?? upTo, ...lag };
      },
    }),
    { tail: true },
  ),
  breaking(
    "tail-that-never-lags",
    "PAGE-04",
    /must report .* held back|must report that it has caught up/,
    (driver) => ({
      async tail(request) {
        return { ...(await driver.tail(request)), lastRowId: request.after, heldBackMs: 0 };
      },
    }),
    { tail: true, lockScope: "row" },
  ),
  breaking(
    "tail-that-looks-no-further",
    "PAGE-04",
    /must report that nothing is left|must yield row/,
    (driver) => {
      let known = 0;
      return {
        async tail(request) {
          if (known > request.after) {
            const rows = await driver.page({ ...request, upTo: known });
            return { rows, upTo: request.after, lastRowId: known, heldBackMs: 0 };
          }
          const page = await driver.tail(request);
          known = page.upTo;
          return { ...page, upTo: request.after };
        },
      };
    },
    { tail: true },
  ),
  breaking(
    "tail-that-is-always-held-back",
    "PAGE-04",
    /must report nothing to wait for/,
    (driver) => ({ tail: async (request) => ({ ...(await driver.tail(request)), heldBackMs: 1 }) }),
    { tail: true },
  ),
  breakingOutbox(
    "tail-that-is-silently-empty",
    "PAGE-04",
    /not offered must be refused/,
    () => ({
      async *tail(): AsyncGenerator<Entry, void, undefined> {},
    }),
    { tail: false },
  ),
  breaking("cursor-is-an-offset", "PAGE-05", /cursor/, (driver) => ({
    async page(request) {
      const limit = Math.min(1000, request.after + request.limit);
      return (await driver.page({ ...request, after: 0, limit })).slice(request.after);
    },
  })),
  breaking(
    "snapshot-cursor-above-what-it-shows",
    "PAGE-06",
    /the tail must yield row|show every event/,
    (driver) => ({
      async snapshot() {
        const snapshot = await driver.snapshot();
        return { ...snapshot, cursor: snapshot.cursor + 1 };
      },
    }),
    { tail: true },
  ),
  breakingOutbox(
    "pages-in-a-loop-for-a-tail",
    "PAGE-06",
    /not offered must be refused|yielded row/,
    (outbox) => ({
      async *tail({ after = 0 } = {}): AsyncGenerator<Entry, void, undefined> {
        for (let cursor = after; ; ) {
          const page = await outbox.page({ after: cursor });
          yield* page.entries;
          if (page.entries.length === 0) return;
          cursor = page.cursor;
        }
      },
    }),
    { tail: false },
  ),
];
