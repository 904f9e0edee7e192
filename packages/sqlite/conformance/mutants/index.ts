/** Broken forms of the SQLite driver: each breaks one thing, and the case named for it has to notice. One file per group. */
import { claim } from "./claim.ts";
import { clock } from "./clock.ts";
import { crash } from "./crash.ts";
import type { SqliteMutant } from "./define.ts";
import { fence } from "./fence.ts";
import { identity } from "./identity.ts";
import { keys } from "./keys.ts";
import { lease } from "./lease.ts";
import { life } from "./life.ts";
import { schema } from "./schema.ts";
import { settle } from "./settle.ts";
import { tenant } from "./tenant.ts";
import { tx } from "./tx.ts";

export const mutants: readonly SqliteMutant[] = [
  ...tx,
  ...identity,
  ...claim,
  ...lease,
  ...fence,
  ...settle,
  ...tenant,
  ...clock,
  ...schema,
  ...life,
  ...crash,
  ...keys,
];
