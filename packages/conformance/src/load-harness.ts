import type { Harness } from "./define-harness.ts";

/** Loads a harness from the URL of its module. */
export async function loadHarness(url: string): Promise<Harness> {
  const module: { readonly default?: Harness } = await import(/* @vite-ignore */ url);
  const harness = module.default;
  if (typeof harness?.connect !== "function" || typeof harness.createSpace !== "function") {
    throw new Error(`${url} must export a harness as its default: export default defineHarness({ … })`);
  }
  return harness;
}
