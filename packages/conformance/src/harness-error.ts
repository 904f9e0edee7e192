/** The harness is at fault, not the driver: the message names the part of it and what is wrong. */
export class HarnessError extends Error {
  override readonly name = "HarnessError";
}

/** What was asked of the suite makes no sense: a level, an id or a deviation that does not exist. */
export class MisuseError extends TypeError {
  override readonly name = "MisuseError";
}
