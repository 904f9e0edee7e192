#!/usr/bin/env node
/** `dovecote-conformance`, in a process that can load harnesses in TypeScript. */
import { main } from "./cli/main.ts";
import { runAgain, stripsTypes } from "./cli/type-stripping.ts";

// Not awaited here: a process that ends while its entry module waits is taken for one that hangs.
void (stripsTypes() ? main(process.argv.slice(2)) : runAgain()).then((exitCode) => {
  process.exitCode = exitCode;
});
