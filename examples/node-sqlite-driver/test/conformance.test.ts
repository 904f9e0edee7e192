import { runConformance } from "@dovecote/conformance";
import { afterAll, describe, it } from "vitest";

runConformance(new URL("../conformance/harness.ts", import.meta.url), { describe, it, afterAll });
