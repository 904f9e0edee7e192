/** The reference store: all in memory, the template for drivers, and a store for the unit tests of an application. */
export { ReferenceDriver } from "./driver.ts";
export { default as referenceHarness } from "./harness.ts";
export { Store } from "./store.ts";
