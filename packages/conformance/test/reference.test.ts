import { afterAll, describe, it } from "vitest";
import { runConformance } from "../src/index.ts";

// In memory there is one process: level 1 is what it can show.
runConformance(new URL("../src/reference/harness.ts", import.meta.url), {
  describe,
  it,
  afterAll,
  levels: [1],
});
