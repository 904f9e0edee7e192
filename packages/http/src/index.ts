export type { CountsByOutcome } from "./counts.ts";
export type { HandlerContext, KeyStore, RecordContext, TransactionContext } from "./handling.ts";
export { type KeyHeader, readKeyHeader } from "./key-header.ts";
export type {
  BodyFingerprint,
  GateOptions,
  RecordRouteOptions,
  RouteOptions,
  SharedOptions,
  TransactionRouteOptions,
} from "./options.ts";
export { type Answer, type Problem, type ProblemCode, problemAnswer, retryAfterSeconds } from "./problem.ts";
export { type HeaderList, recordedHeaders } from "./recorded-headers.ts";
export {
  autoFingerprint,
  type BodyMode,
  type RequestParts,
  requestFingerprint,
} from "./request-fingerprint.ts";
export { type Target, toTarget } from "./target.ts";
