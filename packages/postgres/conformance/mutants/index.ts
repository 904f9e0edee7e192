/** Broken forms of the Postgres driver: each breaks one thing, and the case named for it has to notice. One file per group. */
import { claim } from "./claim.ts";
import { clock } from "./clock.ts";
import { crash } from "./crash.ts";
import type { PostgresMutant } from "./define.ts";
import { fence } from "./fence.ts";
import { hostile } from "./hostile.ts";
import { identity } from "./identity.ts";
import { keys } from "./keys.ts";
import { lease } from "./lease.ts";
import { life } from "./life.ts";
import { page } from "./page.ts";
import { schema } from "./schema.ts";
import { settle } from "./settle.ts";
import { tenant } from "./tenant.ts";
import { tx } from "./tx.ts";
import { wake } from "./wake.ts";

export const mutants: readonly PostgresMutant[] = [
  ...tx,
  ...identity,
  ...claim,
  ...hostile,
  ...lease,
  ...fence,
  ...settle,
  ...tenant,
  ...page,
  ...clock,
  ...schema,
  ...life,
  ...wake,
  ...crash,
  ...keys,
];
