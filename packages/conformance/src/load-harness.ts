import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Harness } from "./define-harness.ts";
import { HarnessError } from "./harness-error.ts";
import { assertHarness } from "./validate-harness.ts";

/**
 * Loads a harness from the URL of its module.
 *
 * @throws HarnessError if there is no such module, if it throws, or if its default export is not a harness.
 */
export async function loadHarness(url: string): Promise<Harness> {
  let module: { readonly default?: unknown };
  try {
    module = await import(/* @vite-ignore */ url);
  } catch (error) {
    throw new HarnessError(`${nameOf(url)} cannot be loaded: ${reasonOf(url, error)}`, { cause: error });
  }
  const harness = module.default;
  if (harness === undefined) {
    throw new HarnessError(
      `${nameOf(url)} must export a harness as its default: export default defineHarness({ … })`,
    );
  }
  assertHarness(harness);
  return harness;
}

function reasonOf(url: string, error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, url: missing } = error as { readonly code?: unknown; readonly url?: unknown };
  if (code === "ERR_MODULE_NOT_FOUND" && missing === url) return "there is no such file";
  if (code === "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING") {
    return "Node runs no TypeScript inside node_modules; compile the harness, or keep it outside";
  }
  return error.message;
}

/** As the reader would write it. */
function nameOf(url: string): string {
  if (!url.startsWith("file:")) return url;
  return relative(process.cwd(), fileURLToPath(url)) || url;
}
