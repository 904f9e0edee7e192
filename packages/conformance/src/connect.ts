import { createDovecote, type DovecoteOptions } from "@dovecote/core";
import type { Outbox } from "./case.ts";
import type { ConnectOptions, Harness, Json, Session } from "./define-harness.ts";
import { semanticMutants } from "./mutants/semantic/index.ts";
import { override } from "./override.ts";

/** A session, with its driver broken in the way that a mutant says: one of the harness's own, or one made here. */
export async function connectSession(
  harness: Harness,
  locator: Json,
  mutant: string | undefined,
  options: Pick<ConnectOptions, "hostile"> = {},
): Promise<Session> {
  if (mutant === undefined) return harness.connect(locator, options);
  if (harness.mutants?.some(({ name }) => name === mutant))
    return harness.connect(locator, { ...options, mutant });
  const breaking = semanticMutants.find(({ name }) => name === mutant);
  if (breaking === undefined) throw new Error(`there is no mutant ${mutant}`);
  const session = await harness.connect(locator, options);
  return breaking.wrap === undefined ? session : override(session, { driver: breaking.wrap(session) });
}

/** The portable API over a session's driver, broken where the mutant is one of the portable API. */
export function openOutbox(
  session: Session,
  mutant: string | undefined,
  options: DovecoteOptions = {},
): Outbox {
  const outbox = createDovecote(session.driver, options);
  const breaking = semanticMutants.find(({ name }) => name === mutant);
  return breaking?.wrapOutbox === undefined ? outbox : breaking.wrapOutbox(outbox, session);
}
