/** Runs the handler of one claim, and answers how the claim is to be settled. */
import type { OutboxEvent } from "../event/event.ts";
import { backoffMs } from "./backoff.ts";
import type { Job } from "./job.ts";
import type { DeliveryContext, RelayPlan } from "./options.ts";
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
    const deliver = async (): Promise<void> => {
      await plan.deliver(event, context);
    };
    await (plan.around === undefined ? deliver() : plan.around(event, context, deliver));
    return { action: "ack" };
  } catch (thrown) {
    const budget = {
      used: job.used,
      max: plan.maxAttempts,
      delayMs: () => backoffMs(plan.backoff, job.used, scheduler),
    };
    return endingOf(thrown, budget, claim.token.reveal());
  }
}
