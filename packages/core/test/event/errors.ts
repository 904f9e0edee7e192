import { DovecoteError, type ErrorCode } from "../../src/errors.ts";

/** The DovecoteError a call throws; anything else fails the test that asked. */
export function refusalOf(call: () => unknown): DovecoteError {
  try {
    call();
  } catch (error) {
    if (error instanceof DovecoteError) return error;
    throw new Error("threw something that is no DovecoteError", { cause: error });
  }
  throw new Error("nothing was refused");
}

/** Code and path of a refusal, the parts that programs rely on. */
export function codeAndPath(call: () => unknown): { code: ErrorCode; path: string | undefined } {
  const { code, path } = refusalOf(call);
  return { code, path };
}
