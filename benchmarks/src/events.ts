/** Events to measure with: about 200 bytes of JSON, none like another. */
import { randomBytes } from "node:crypto";
import type { FloorEvent } from "./postgres-floor.ts";

export function batches(events: number, batch: number): readonly (readonly FloorEvent[])[] {
  return Array.from({ length: Math.ceil(events / batch) }, (_, at) =>
    Array.from({ length: Math.min(batch, events - at * batch) }, () => ({
      stream: "bench",
      source: "/bench",
      type: "bench.event",
      data: { payload: randomBytes(90).toString("hex") },
    })),
  );
}
