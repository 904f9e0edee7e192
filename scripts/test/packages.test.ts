import { describe, expect, it } from "vitest";
import { entryPoints, fileFaults, manifestFaults, typescriptUrls } from "../packages/manifest.ts";
import { readmeExample } from "../packages/readme-example.ts";

describe("the README's example", () => {
  const page =
    "```ts\nearlier\n```\n<!-- example: sqlite -->\n\nSome words.\n\n```sh\nnpm i\n```\n\n```ts\nfirst();\n\nsecond();\n```\n\n```ts\nlater\n```\n";

  it("is the first ts block after its comment", () => {
    expect(readmeExample(page, "sqlite")).toBe("first();\n\nsecond();\n");
  });

  it("is missed loudly", () => {
    expect(() => readmeExample(page, "postgres")).toThrow("no <!-- example: postgres -->");
    expect(() => readmeExample("<!-- example: sqlite -->\n```js\nx\n```\n", "sqlite")).toThrow(
      "no ```ts block",
    );
  });
});

describe("a packed manifest", () => {
  const good = {
    name: "@dovecote/core",
    version: "0.1.0",
    license: "(MIT OR Apache-2.0)",
    engines: { node: ">=22.13" },
    exports: {
      ".": { types: "./dist/index.d.ts", default: "./dist/index.js" },
      "./relay": "./dist/relay.js",
      "./package.json": "./package.json",
    },
  };

  it("names what can be imported", () => {
    expect(entryPoints(good)).toEqual(["@dovecote/core", "@dovecote/core/relay"]);
  });

  it("has no fault, or names it", () => {
    expect(manifestFaults(good)).toEqual([]);
    expect(manifestFaults({ ...good, exports: { ".": "./src/index.ts" } })).toEqual([
      "exports do not point at dist",
      "exports point at src",
    ]);
    expect(manifestFaults({ ...good, dependencies: { "@dovecote/core": "workspace:^" } })).toEqual([
      "@dovecote/core is asked for as workspace:^",
    ]);
  });
});

it("a tarball holds what was built, and nothing else", () => {
  const files = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "package.json",
    "dist/index.js",
    "dist/index.d.ts",
  ];
  expect(fileFaults(files)).toEqual([]);
  expect(fileFaults(files.slice(1))).toEqual(["LICENSE-APACHE is missing"]);
  expect(fileFaults([...files, "src/index.ts", "dist/.tsbuildinfo", "dist/index.ts"])).toEqual([
    "src/index.ts should not be packed",
    "dist/.tsbuildinfo should not be packed",
    "dist/index.ts should not be packed",
  ]);
});

it("a compiled file that names its child process by the source's name is found", () => {
  expect(typescriptUrls('fork(new URL("./contender.ts", import.meta.url))')).toEqual(["./contender.ts"]);
  expect(typescriptUrls('fork(new URL("./contender.js", import.meta.url)); import("./x.js")')).toEqual([]);
});
