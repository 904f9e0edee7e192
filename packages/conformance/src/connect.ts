import type { Harness, Json, Session } from "./define-harness.ts";
import { semanticMutants } from "./mutants/semantic.ts";
import { override } from "./override.ts";

/** A session, with its driver broken in the way that a mutant says: one of the harness's own, or one made here. */
export async function connectSession(
  harness: Harness,
  locator: Json,
  mutant: string | undefined,
): Promise<Session> {
  if (mutant === undefined) return harness.connect(locator, {});
  if (harness.mutants?.some(({ name }) => name === mutant)) return harness.connect(locator, { mutant });
  const breaking = semanticMutants.find(({ name }) => name === mutant);
  if (breaking === undefined) throw new Error(`there is no mutant ${mutant}`);
  const session = await harness.connect(locator, {});
  return override(session, { driver: breaking.wrap(session) });
}
