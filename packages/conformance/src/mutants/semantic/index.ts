/** Mutants of any driver: wrappers that break one promise each, whatever the database. One file per group of SPEC.md. */
import { claim } from "./claim.ts";
import { clock } from "./clock.ts";
import { crash } from "./crash.ts";
import { data } from "./data.ts";
import type { SemanticMutant } from "./define.ts";
import { errors } from "./errors.ts";
import { fence } from "./fence.ts";
import { history } from "./history.ts";
import { identity } from "./identity.ts";
import { keys } from "./keys.ts";
import { lease } from "./lease.ts";
import { life } from "./life.ts";
import { page } from "./page.ts";
import { relay } from "./relay.ts";
import { schema } from "./schema.ts";
import { settle } from "./settle.ts";
import { tenant } from "./tenant.ts";
import { tx } from "./tx.ts";
import { wake } from "./wake.ts";

export const semanticMutants: readonly SemanticMutant[] = [
  ...tx,
  ...identity,
  ...claim,
  ...lease,
  ...fence,
  ...settle,
  ...page,
  ...tenant,
  ...clock,
  ...data,
  ...schema,
  ...life,
  ...errors,
  ...wake,
  ...keys,
  ...crash,
  ...relay,
  ...history,
];
