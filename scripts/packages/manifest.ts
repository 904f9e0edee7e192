/** The parts of a package.json that the package checks look at. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly license?: string;
  readonly engines?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly publishConfig?: Readonly<Record<string, unknown>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** What an importer may write: the package's name with each exported path that is a module. */
export function entryPoints({ name, exports = {} }: Manifest): string[] {
  return Object.keys(exports)
    .filter((path) => !path.endsWith(".json") && !path.includes("*"))
    .map((path) => `${name}${path.slice(1)}`);
}

/** What is wrong with a manifest as it was packed; the workspace's own form of it must not get out. */
export function manifestFaults(packed: Manifest): string[] {
  const faults: string[] = [];
  if (packed.license !== "(MIT OR Apache-2.0)") faults.push(`license is ${packed.license}`);
  if (packed.engines?.node === undefined) faults.push("engines.node is missing");
  if (packed.publishConfig?.exports !== undefined) faults.push("publishConfig.exports was not applied");
  const targets = JSON.stringify(packed.exports ?? {});
  if (!targets.includes("./dist/")) faults.push("exports do not point at dist");
  if (targets.includes("/src/")) faults.push("exports point at src");
  for (const [name, range] of Object.entries({ ...packed.dependencies, ...packed.peerDependencies })) {
    if (/^(workspace|link|file|catalog):/.test(range)) faults.push(`${name} is asked for as ${range}`);
  }
  return faults;
}

const wanted = [
  "LICENSE-APACHE",
  "LICENSE-MIT",
  "README.md",
  "package.json",
  "dist/index.js",
  "dist/index.d.ts",
];
const allowed = /^(LICENSE-(APACHE|MIT)|(README|CHANGELOG)\.md|package\.json|dist\/.+\.(js|d\.ts|json|sql))$/;

/** What is missing from a tarball's list of files, and what has no business in it (sources, tests, build state). */
export function fileFaults(files: readonly string[]): string[] {
  return [
    ...wanted.filter((file) => !files.includes(file)).map((file) => `${file} is missing`),
    ...files.filter((file) => !allowed.test(file)).map((file) => `${file} should not be packed`),
  ];
}

/**
 * Relative modules that a compiled file names by URL under their TypeScript name. The compiler rewrites imports only:
 * `new URL("./race-child.ts", import.meta.url)` works in the workspace and names a file that is not shipped. What works in
 * both is the extension of the file that asks: `new URL(`./race-child${extname(import.meta.url)}`, import.meta.url)`.
 */
export function typescriptUrls(compiled: string): string[] {
  const code = compiled.replaceAll(/^\s*\*.*$/gm, ""); // examples in docstrings are the reader's own files
  return [...code.matchAll(/new URL\(\s*["'`](\.[^"'`]*\.m?ts)["'`]/g)].map(([, url = ""]) => url);
}
