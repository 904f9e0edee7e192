/** The context of an event as it leaves: which attributes, and in which order. */
import type { Extension, OutboxEvent } from "./event.ts";
import { checkTraceContext } from "./trace-context.ts";

const ATTRIBUTES = [
  "specversion",
  "id",
  "source",
  "type",
  "subject",
  "time",
  "datacontenttype",
  "dataschema",
] as const;

/** The attributes of CloudEvents itself that the event has, in a fixed order. */
export function coreAttributes(event: OutboxEvent): readonly (readonly [string, string])[] {
  return ATTRIBUTES.flatMap((name) => {
    const value = event[name];
    return value === undefined ? [] : [[name, value] as const];
  });
}

/** Extensions by name, `partitionkey` among them, without what is invalid of a trace context. */
export function extensionAttributes(event: OutboxEvent): readonly (readonly [string, Extension])[] {
  const { extensions, partitionkey } = event;
  const trace: Readonly<Record<string, string>> = {
    ...checkTraceContext({
      traceparent: textOf(extensions.traceparent),
      tracestate: textOf(extensions.tracestate),
    }),
  };
  const entries = Object.entries(extensions).filter(
    ([name]) => (name !== "traceparent" && name !== "tracestate") || trace[name] !== undefined,
  );
  if (partitionkey !== undefined) entries.push(["partitionkey", { type: "string", value: partitionkey }]);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

function textOf(extension: Extension | undefined): string | undefined {
  return extension?.type === "string" ? extension.value : undefined;
}
