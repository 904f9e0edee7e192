/** Telling what happens, as it happens. */
import { styleText } from "node:util";

/** What a worker says it did. */
export interface Report {
  readonly worker: string;
  readonly kind: "claimed" | "tookOver" | "shipped" | "fenced" | "acked" | "refused";
  readonly orderId: number;
  readonly attempt: number;
}

const started = performance.now();
const COLOURS = { shop: "cyan", ann: "green", ben: "yellow", fate: "red" } as const;

export type Teller = keyof typeof COLOURS;

export function tell(who: Teller, text: string): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(2).padStart(5);
  console.log(`${styleText("dim", `${seconds} s`)}  ${styleText(COLOURS[who], who.padEnd(5))} ${text}`);
}

export function heading(text: string): void {
  console.log(`\n${styleText("bold", text)}`);
}

export function describe({ kind, orderId, attempt }: Report): string {
  switch (kind) {
    case "claimed":
      return `claims order ${orderId} (attempt ${attempt}) and starts to pack`;
    case "tookOver":
      return `takes over order ${orderId} (attempt ${attempt}): the lease before it has expired`;
    case "shipped":
      return `ships order ${orderId} (attempt ${attempt})`;
    case "fenced":
      return `tries to ship order ${orderId} with attempt ${attempt}: the warehouse has seen a newer attempt, and ignores it`;
    case "acked":
      return `acknowledges order ${orderId}: delivered`;
    case "refused":
      return `is done with order ${orderId} too late: DISCARDED, the claim it had is no longer the current one`;
  }
}

/** Rows as a table with aligned columns. */
export function table(columns: readonly string[], rows: readonly (readonly unknown[])[]): void {
  const cells = [columns, ...rows].map((row) => row.map(String));
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index]?.length ?? 0)));
  for (const [index, row] of cells.entries()) {
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    console.log(index === 0 ? styleText("underline", line) : line);
  }
}
