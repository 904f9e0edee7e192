export { type KeyHeader, readKeyHeader } from "./key-header.ts";
export { type Target, toTarget } from "./target.ts";
