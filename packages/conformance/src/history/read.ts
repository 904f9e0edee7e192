/** Reading histories back. */
import type { Operation, Verb } from "./operation.ts";
import type { Line } from "./record.ts";

type Call = Extract<Line, { readonly op: Verb }>;

/** The operations in the text of one process's file; `start` is the moment from which times are counted, in ns. */
export function readOperations(p: string, text: string, start: bigint): readonly Operation[] {
  const since = (moment: string): number => Number(BigInt(moment) - start);
  const open = new Map<number, Call>();
  const operations: Operation[] = [];
  // What follows the last line break is empty, or the line in which the process was killed.
  for (const each of text.split("\n").slice(0, -1)) {
    const line = JSON.parse(each) as Line;
    if ("op" in line) {
      open.set(line.n, line);
      continue;
    }
    const call = open.get(line.n);
    if (call === undefined) throw new Error(`the history of ${p} completes a call that was never made`);
    open.delete(line.n);
    const times = { t0: since(call.t0), t1: since(line.t1) };
    for (const item of line.items) operations.push({ p, op: call.op, ...times, ...item });
    if (line.items.length === 0) operations.push({ p, op: call.op, ...times, type: "ok" });
  }
  for (const { op, t0, items } of open.values()) {
    const unknown = { p, op, t0: since(t0), t1: Number.POSITIVE_INFINITY, type: "info" } as const;
    // A call that was killed may still have named what it was about.
    for (const item of items.length > 0 ? items : [{}]) operations.push({ ...unknown, ...item });
  }
  return operations;
}
