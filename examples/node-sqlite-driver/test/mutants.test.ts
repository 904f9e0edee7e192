import { runMutants } from "@dovecote/conformance";
import { afterAll, describe, it } from "vitest";

await runMutants(new URL("../conformance/harness.ts", import.meta.url), {
  describe,
  it,
  afterAll,
  of: "own",
});
