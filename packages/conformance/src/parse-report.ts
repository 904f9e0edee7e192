/** Reading reports back, such as those that a page about drivers is written from. */
import { Ajv2020 } from "ajv/dist/2020.js";
import { badgeMessage } from "./badge.ts";
import schema from "./report.schema.json" with { type: "json" };
import type { Report } from "./report.ts";

/**
 * Reads a report, and checks its form.
 *
 * @throws SyntaxError if it is not JSON, TypeError if it is not a report of this version.
 *
 * @example
 * const { driver, levels, badge } = parseReport(readFileSync("conformance-report.json", "utf8"));
 */
export function parseReport(text: string): Report {
  const value: unknown = JSON.parse(text);
  const ajv = new Ajv2020({ allErrors: true });
  const isReport = ajv.compile<Report>(schema);
  if (!isReport(value)) {
    throw new TypeError(
      `not a conformance report: ${ajv.errorsText(isReport.errors, { dataVar: "report" })}`,
    );
  }
  if (value.badge !== badgeMessage(value.levels)) {
    throw new TypeError(`not a conformance report: report/badge must be ${badgeMessage(value.levels)}`);
  }
  return value;
}
