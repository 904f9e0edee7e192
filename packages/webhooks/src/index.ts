export { type HttpTransportOptions, httpTransport } from "./http-transport.ts";
export type { Endpoint, HeadersFor, SharedOptions, SignOptions } from "./options.ts";
