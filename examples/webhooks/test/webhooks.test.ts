import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

it("the example delivers everything, and ends by itself", () => {
  const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [main], {
    encoding: "utf8",
    timeout: 50_000,
  });
  expect(stderr.replaceAll(/^.*Experimental.*\n.*\n/gm, "")).toBe("");
  expect(stdout).toContain("5 delivered, 2 tried again, 1 set aside");
  expect(stdout).toContain("the receiver handled 5 orders, and saw 1 duplicate and 1 forged");
  expect(status).toBe(0);
});
