export { checkOptions, checkWhole, invalid } from "./arguments.ts";
export { BOUNDS, type Bounds, type Range } from "./bounds.ts";
export { callSafely } from "./call-safely.ts";
export type { Capabilities } from "./capabilities.ts";
export { type Claim, type ClaimRef, isDecoded } from "./claim.ts";
export type * from "./driver.ts";
export type { Delivery, Entry } from "./entry.ts";
export { DovecoteError, type ErrorCode, type ErrorDetails, isDovecoteError, redactCause } from "./errors.ts";
export { type BinaryEvent, toBinary } from "./event/binary.ts";
export type * from "./event/event.ts";
export { fromHttp, type HttpHeaders, toHttpHeaders } from "./event/http.ts";
export { differingFields } from "./event/identity.ts";
export type { InboundCaps } from "./event/inbound.ts";
export { STRUCTURED_JSON, toStructuredJson } from "./event/project.ts";
export { type CloudEventLike, fromCloudEvent } from "./event/sdk.ts";
export { fromStructuredJson } from "./event/structured.ts";
export { checkTraceContext, type TraceContext } from "./event/trace-context.ts";
export type { Redact } from "./failure.ts";
export type * from "./handle.ts";
export type * from "./idempotency/api.ts";
export { type BeginStep, beginStep, type StoredKey } from "./idempotency/begin.ts";
export type { KeyClaim, KeyClaimRef } from "./idempotency/claim.ts";
export type * from "./idempotency/driver.ts";
export {
  type DeclaredField,
  type DeclaredFile,
  type Fingerprint,
  type Fingerprints,
  fingerprint,
} from "./idempotency/fingerprint.ts";
export type { Inbox, OnceOptions, OnceOutcome } from "./idempotency/inbox.ts";
export type {
  KeyResponse,
  RecordedResponse,
  RunAnswer,
  UnreplayableResponse,
} from "./idempotency/response.ts";
export type {
  RecordRunContext,
  RecordRunOptions,
  RunContext,
  RunOptions,
  RunOutcome,
  RunResponse,
  TransactionHandler,
  TransactionRunContext,
  TransactionRunOptions,
} from "./idempotency/run.ts";
export { type RecordPolicy, recordsByDefault } from "./idempotency/run-options.ts";
export type { KeyScope } from "./idempotency/scope.ts";
export { type KeyTimes, recordState, type Situation, situationOf, sweepAt } from "./idempotency/situation.ts";
export { isThenable } from "./in-transaction.ts";
export { Listeners } from "./listeners.ts";
export { checkStoreOptions, type DovecoteOptions } from "./options.ts";
export { createDovecote, DEFAULT_TENANT } from "./outbox.ts";
export type { RelayHooks } from "./relay/hooks.ts";
export type { AroundDelivery, Deliver, DeliveryContext, RelayOptions } from "./relay/options.ts";
export type { DrainOptions, DrainReport, Relay, RelayRunOptions } from "./relay/relay.ts";
export type { RelayReport } from "./relay/relay-run.ts";
export { Quarantine, Release, RetryLater } from "./relay/verdict.ts";
export {
  assertSchemaUsable,
  type Catalogue,
  compareCatalogues,
  judgeSchema,
  type SchemaMarker,
  type SchemaNeeds,
  type SchemaVerdict,
} from "./schema-version.ts";
export type { Snapshot } from "./snapshot.ts";
export { ClaimToken, type RandomBytes } from "./token.ts";
