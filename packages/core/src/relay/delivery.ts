/** Runs the handler of one claim, and answers how the claim is to be settled. */
import type { OutboxEvent } from "../event/event.ts";
import { backoffMs } from "./backoff.ts";
import type { Job } from "./job.ts";
import type { AroundDelivery, DeliveryContext, RelayPlan } from "./options.ts";
import type { Scheduler } from "./scheduler.ts";
import { type Ending, endingOf } from "./verdict.ts";

/** Never rejects (RELAY-06). */
export async function delivered(
  job: Job,
  event: OutboxEvent,
  plan: RelayPlan,
  scheduler: Scheduler,
): Promise<Ending> {
  const { claim, controller } = job;
  const { rowId, attempt, tenant, stream } = claim;
  const context: DeliveryContext = {
    signal: controller.signal,
    tenant,
    stream,
    attempt,
    fence: { rowId, attempt },
    claim,
  };
  try {
    // Run once, however often it is called, and it alone decides: a wrapper that hides a failure must lose no event.
    let delivery: Promise<void> | undefined;
    const deliver = (): Promise<void> => {
      delivery ??= (async () => {
        await plan.deliver(event, context);
      })();
      return delivery;
    };
    if (plan.around === undefined) await deliver();
    else await around(plan.around, event, context, deliver);
    if (delivery === undefined) throw new Error("options.around did not call deliver");
    await delivery;
    return { action: "ack" };
  } catch (thrown) {
    return failed(job, thrown, plan, scheduler);
  }
}

/** What becomes of a claim whose handler threw, or is taken to have thrown. */
export function failed({ claim, used }: Job, thrown: unknown, plan: RelayPlan, scheduler: Scheduler): Ending {
  const budget = {
    used,
    max: plan.maxAttempts,
    delayMs: () => backoffMs(plan.backoff, used, scheduler),
  };
  return endingOf(thrown, budget, claim.token.reveal());
}

/** What a wrapper throws by itself fails the delivery; what it does not wait for is waited for by whoever called. */
async function around(
  wrap: AroundDelivery,
  event: OutboxEvent,
  context: DeliveryContext,
  deliver: () => Promise<void>,
): Promise<void> {
  await wrap(event, context, () => {
    const delivery = deliver();
    delivery.catch(() => {}); // looked at by the caller, also where the wrapper does not
    return delivery;
  });
}
