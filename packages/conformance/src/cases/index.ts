/** Every case of the suite, in the order of SPEC.md. */
import type { Case } from "../case.ts";
import { claimCases } from "./claim.ts";
import { clockCases } from "./clock.ts";
import { commitFailureCases } from "./commit-failures.ts";
import { crashCases } from "./crash.ts";
import { dataCases } from "./data.ts";
import { errorCases } from "./errors.ts";
import { fullCases } from "./errors-full.ts";
import { fenceCases } from "./fence.ts";
import { historyCases } from "./history.ts";
import { hostileCases } from "./hostile.ts";
import { identityCases } from "./identity.ts";
import { keyCases } from "./key.ts";
import { keyArgumentCases } from "./key-arguments.ts";
import { keyCrashCases } from "./key-crash.ts";
import { keyRaceCases } from "./key-race.ts";
import { keyRunCases } from "./key-run.ts";
import { keySessionCases } from "./key-sessions.ts";
import { leaseCases } from "./lease.ts";
import { lifeCases } from "./life.ts";
import { modelCases } from "./model.ts";
import { pageCases } from "./page.ts";
import { relayCases } from "./relay.ts";
import { schemaCases } from "./schema.ts";
import { settleCases } from "./settle.ts";
import { severCases } from "./sever.ts";
import { tenantCases } from "./tenant.ts";
import { txCases } from "./tx.ts";
import { wakeCases } from "./wake.ts";

export const cases: readonly Case[] = [
  ...txCases,
  ...identityCases,
  ...claimCases,
  ...leaseCases,
  ...fenceCases,
  ...settleCases,
  ...pageCases,
  ...tenantCases,
  ...clockCases,
  ...dataCases,
  ...schemaCases,
  ...lifeCases,
  ...errorCases,
  ...wakeCases,
  ...keyCases,
  ...keyRunCases,
  ...keySessionCases,
  ...keyArgumentCases,
  ...keyRaceCases,
  ...keyCrashCases,
  ...crashCases,
  ...severCases,
  ...relayCases,
  ...historyCases,
  ...modelCases,
  ...commitFailureCases,
  ...fullCases,
  ...hostileCases,
];
