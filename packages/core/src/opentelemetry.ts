/**
 * Consumer spans for a relay, by OpenTelemetry's conventions for messaging. An entry of its own, so that whoever does not
 * import it needs no `@opentelemetry/api` and pays nothing.
 */
import {
  type Attributes,
  type Link,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { checkOptions } from "./arguments.ts";
import type { OutboxEvent } from "./event/event.ts";
import { checkTraceContext } from "./event/trace-context.ts";
import { verdictKind } from "./relay/brand.ts";
import type { AroundDelivery, DeliveryContext } from "./relay/options.ts";

/** The last two fields of a `traceparent`; both parts were checked before. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/;

/**
 * Makes a span of kind CONSUMER for each delivery, active while the handler runs, and linked to the `traceparent` that was
 * stored with the event: a link and not a parent, since an event may be delivered long after, and more than once.
 *
 * @throws `INVALID_ARGUMENT`
 * @example
 * import { traced } from "@dovecote/core/opentelemetry";
 * dovecote.admin().relay({ deliver, around: traced() });
 */
export function traced(given: { readonly tracerProvider?: TracerProvider } = {}): AroundDelivery {
  const { tracerProvider } = checkOptions(given, ["tracerProvider"], "options");
  const provider = (tracerProvider as TracerProvider | undefined) ?? trace.getTracerProvider();
  const tracer = provider.getTracer("@dovecote/core");
  return (event, delivery, deliver) => {
    const options = {
      kind: SpanKind.CONSUMER,
      attributes: attributesOf(event, delivery),
      links: linksOf(event),
    };
    return tracer.startActiveSpan(`process ${delivery.stream}`, options, async (span) => {
      try {
        await deliver();
      } catch (thrown) {
        // What a handler says on purpose is no error.
        if (verdictKind(thrown) === undefined) {
          const type = thrown instanceof Error ? thrown.name : typeof thrown;
          span.setAttribute("error.type", type);
          span.setStatus({ code: SpanStatusCode.ERROR });
        }
        throw thrown;
      } finally {
        span.end();
      }
    });
  };
}

/** https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/ and .../cloudevents/ */
function attributesOf(event: OutboxEvent, { stream, tenant, attempt, fence }: DeliveryContext): Attributes {
  return {
    "messaging.system": "dovecote",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": stream,
    "messaging.message.id": event.id,
    "messaging.message.body.size": event.dataBytes.length,
    "cloudevents.event_id": event.id,
    "cloudevents.event_source": event.source,
    "cloudevents.event_spec_version": event.specversion,
    "cloudevents.event_type": event.type,
    ...(event.subject !== undefined && { "cloudevents.event_subject": event.subject }),
    "dovecote.tenant": tenant,
    "dovecote.row_id": fence.rowId,
    "dovecote.attempt": attempt,
  };
}

function linksOf({ extensions }: OutboxEvent): Link[] {
  const stored = checkTraceContext({
    traceparent: extensions.traceparent?.value,
    tracestate: extensions.tracestate?.value,
  });
  const [, traceId, spanId, flags] = TRACEPARENT.exec(stored?.traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined) return [];
  const traceFlags = Number.parseInt(flags ?? "0", 16) & 1;
  return [{ context: { traceId, spanId, traceFlags, isRemote: true } }];
}
