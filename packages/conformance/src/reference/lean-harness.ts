/** The reference store as a driver without tail, wake-ups and keys, which it has to say: no driver of ours is one. */
import { DovecoteError } from "@dovecote/core";
import { defineHarness, type Harness } from "../define-harness.ts";
import { override } from "../override.ts";
import reference from "./harness.ts";

const capabilities: Harness["capabilities"] = {
  ...reference.capabilities,
  tail: false,
  notify: false,
  keys: false,
};

async function unsupported(): Promise<never> {
  throw new DovecoteError("UNSUPPORTED", "this driver does not offer it");
}

const harness: Harness = defineHarness({
  ...reference,
  driver: { name: "@dovecote/conformance lean reference", version: "0", contract: 1 },
  capabilities,
  async connect(locator, options) {
    const session = await reference.connect(locator, options);
    const driver = override(session.driver, { capabilities, tail: unsupported, subscribe: unsupported });
    return override(session, { driver });
  },
});

export default harness;
