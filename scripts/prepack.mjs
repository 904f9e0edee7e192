// Runs before a package is packed, with the package's folder as the working directory. pnpm by itself copies only files
// named LICENSE, so the two licences of the repository are put beside the package here (git ignores these copies).
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
for (const licence of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(join(root, licence), licence);

// `publishConfig` points at dist: without it the tarball would install and then fail at the first import.
if (!existsSync("dist/index.js")) {
  console.error("dist/index.js is missing: run `pnpm build` before packing");
  process.exit(1);
}
