/** Spans of a relay, as an exporter gets them. */
import { RetryLater } from "@dovecote/core";
import { traced } from "@dovecote/core/opentelemetry";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { beforeAll, describe, expect, it } from "vitest";
import { bench } from "./manual.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});

async function spansOf(
  deliver: () => unknown,
  extensions: Record<string, string> = {},
): Promise<readonly ReadableSpan[]> {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const b = bench();
  await b.enqueue(1, { subject: "order-1", data: { a: 1 }, extensions });
  const stop = new AbortController();
  const relay = b.relay({ deliver, around: traced({ tracerProvider }) });
  const ended = relay.run({ signal: stop.signal });
  await b.scheduler.advance(100);
  stop.abort();
  await b.scheduler.advance(100);
  await ended;
  return exporter.getFinishedSpans();
}

describe("traced", () => {
  it("makes a consumer span of each delivery, by the conventions for messaging", async () => {
    const [span, ...others] = await spansOf(() => {});
    expect(others).toEqual([]);
    expect(span).toMatchObject({ name: "process orders", kind: SpanKind.CONSUMER, links: [] });
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
    expect(span?.attributes).toEqual({
      "messaging.system": "dovecote",
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.destination.name": "orders",
      "messaging.message.id": "1",
      "messaging.message.body.size": 7,
      "cloudevents.event_id": "1",
      "cloudevents.event_source": "/test",
      "cloudevents.event_spec_version": "1.0",
      "cloudevents.event_type": "test",
      "cloudevents.event_subject": "order-1",
      "dovecote.tenant": "default",
      "dovecote.row_id": 1,
      "dovecote.attempt": 1,
    });
  });

  it("is active while the handler runs", async () => {
    let active: string | undefined;
    const [span] = await spansOf(() => {
      active = trace.getActiveSpan()?.spanContext().spanId;
    });
    expect(active).toBe(span?.spanContext().spanId);
  });

  it("links to the stored traceparent, and is no child of it", async () => {
    const [span] = await spansOf(() => {}, { traceparent: `00-${TRACE}-${PARENT}-01` });
    expect(span?.links.map((link) => link.context)).toMatchObject([
      { traceId: TRACE, spanId: PARENT, traceFlags: 1, isRemote: true },
    ]);
    expect(span?.spanContext().traceId).not.toBe(TRACE);
  });

  it("links to nothing that is no traceparent", async () => {
    const [span] = await spansOf(() => {}, { traceparent: `00-${"0".repeat(32)}-${PARENT}-01` });
    expect(span?.links).toEqual([]);
  });

  it("says that a handler failed, and nothing of what it said", async () => {
    const [span] = await spansOf(() => {
      throw new TypeError("secret");
    });
    expect(span?.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(span?.attributes["error.type"]).toBe("TypeError");
    expect(JSON.stringify([span?.attributes, span?.events])).not.toContain("secret");
  });

  it("takes what a handler says on purpose for no error", async () => {
    const [span] = await spansOf(() => {
      throw new RetryLater({ delayMs: 1000 });
    });
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
  });
});
