import type { Capabilities } from "@dovecote/core";
import type { Outbox } from "../../case.ts";
import type { AnyDriver, Session } from "../../define-harness.ts";
import { override } from "../../override.ts";
import type { SemanticMutant } from "./define.ts";

/** A driver with some of its methods replaced. */
export function breaking(
  name: string,
  breaks: string,
  because: RegExp,
  methods: (driver: AnyDriver, session: Session) => Partial<AnyDriver>,
  on: Partial<Capabilities> = {},
): SemanticMutant {
  const wrap = (session: Session) => override(session.driver, methods(session.driver, session));
  return { name, breaks, because, on, wrap };
}

/** The portable API with some of its methods replaced. */
export function breakingOutbox(
  name: string,
  breaks: string,
  because: RegExp,
  methods: (outbox: Outbox, session: Session) => Partial<Outbox>,
  on: Partial<Capabilities> = {},
): SemanticMutant {
  const wrapOutbox = (outbox: Outbox, session: Session) => override(outbox, methods(outbox, session));
  return { name, breaks, because, on, wrapOutbox };
}
