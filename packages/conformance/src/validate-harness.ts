/** Whether a harness, and what it hands out, has the form that the suite relies on. Every fault is named. */
import { isDeepStrictEqual } from "node:util";
import type { Capabilities } from "@dovecote/core";
import type { Harness, Session } from "./define-harness.ts";
import { HarnessError } from "./harness-error.ts";

const CONTRACT = 1;

const LEGAL: { readonly [Name in keyof Capabilities]: readonly Capabilities[Name][] } = {
  durable: [true, false],
  serverSide: [true, false],
  savepoints: [true, false],
  asyncTransactions: [true, false],
  transactionIdentity: [true, false],
  lockScope: ["row", "database"],
  snapshotIsolation: ["snapshot", "bounded"],
  clock: ["server", "host"],
  tail: [true, false],
  notify: [true, false],
  keys: [true, false],
};

const SESSION_MEMBERS: { readonly [Name in keyof Session]: "function" | "object" | "unknown" } = {
  driver: "object",
  root: "unknown",
  transaction: "function",
  begin: "function",
  probe: "object",
  faults: "object",
  settings: "function",
  close: "function",
};

/** @throws HarnessError */
export function assertHarness(value: unknown): asserts value is Harness {
  if (!isObject(value)) throw new HarnessError(`a harness must be an object, not ${kindOf(value)}`);
  for (const member of ["createSpace", "connect"]) {
    if (typeof value[member] !== "function") {
      throw new HarnessError(`${member} of the harness must be a function, not ${kindOf(value[member])}`);
    }
  }
  assertDriver(value.driver);
  assertCapabilities(value.capabilities);
  for (const member of ["mutants", "deviations"]) {
    if (value[member] !== undefined && !Array.isArray(value[member])) {
      throw new HarnessError(`${member} of the harness must be an array, not ${kindOf(value[member])}`);
    }
  }
}

/** @throws HarnessError */
export function assertSession(value: unknown): asserts value is Session {
  if (!isObject(value)) {
    throw new HarnessError(`connect() of the harness must answer a session, not ${kindOf(value)}`);
  }
  for (const [member, wanted] of Object.entries(SESSION_MEMBERS)) {
    const found = kindOf(value[member]);
    if (wanted === "unknown" || found === wanted) continue;
    throw new HarnessError(`connect() of the harness answered a session whose ${member} is ${found}`);
  }
}

/** @throws HarnessError if what the harness declares is not what users of the driver will see. */
export function assertSameCapabilities({ capabilities }: Harness, { driver }: Session): void {
  if (isDeepStrictEqual({ ...driver.capabilities }, { ...capabilities })) return;
  throw new HarnessError(
    "capabilities of the harness must be those of the driver that connect() answers: both must be one object",
  );
}

function assertDriver(driver: unknown): void {
  if (!isObject(driver)) {
    throw new HarnessError(
      `driver of the harness must be { name, version, contract }, not ${kindOf(driver)}`,
    );
  }
  for (const member of ["name", "version"]) {
    if (typeof driver[member] !== "string" || driver[member] === "") {
      throw new HarnessError(`driver.${member} of the harness must be a text, not ${kindOf(driver[member])}`);
    }
  }
  if (driver.contract !== CONTRACT) {
    throw new HarnessError(
      `driver.contract of the harness is ${String(driver.contract)}: this suite tests contract ${CONTRACT}`,
    );
  }
}

function assertCapabilities(capabilities: unknown): void {
  if (!isObject(capabilities)) {
    throw new HarnessError(`capabilities of the harness must be an object, not ${kindOf(capabilities)}`);
  }
  for (const [name, legal] of Object.entries<readonly unknown[]>(LEGAL)) {
    if (legal.includes(capabilities[name])) continue;
    const found = Object.hasOwn(capabilities, name)
      ? `is ${JSON.stringify(capabilities[name])}`
      : "is missing";
    const wanted = legal.map((value) => JSON.stringify(value)).join(" or ");
    throw new HarnessError(`capabilities.${name} of the harness ${found}: it must be ${wanted}`);
  }
  const unknown = Object.keys(capabilities).find((name) => !Object.hasOwn(LEGAL, name));
  if (unknown !== undefined) {
    throw new HarnessError(`capabilities.${unknown} of the harness is no capability of the contract`);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function kindOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}
