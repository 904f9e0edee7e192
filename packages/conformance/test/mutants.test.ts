import { afterAll, describe, it } from "vitest";
import { runMutants } from "../src/index.ts";

await runMutants(new URL("../src/reference/harness.ts", import.meta.url), {
  describe,
  it,
  afterAll,
  levels: [1],
});
