import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DovecoteError } from "@dovecote/core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readOperations } from "../src/history/read.ts";
import { Recorder } from "../src/history/record.ts";

let folder: string;
let file: string;
let recorder: Recorder;
const items = [
  { id: "default/1", rowId: 1, attempt: 1, token: "one" },
  { id: "default/2", rowId: 2, attempt: 1, token: "two" },
];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dovecote-history-"));
  file = join(folder, "p.jsonl");
  recorder = new Recorder(file);
});

afterEach(() => {
  recorder.close();
  rmSync(folder, { recursive: true });
});

const read = (text = readFileSync(file, "utf8")) => readOperations("p", text, 0n);

describe("a recorded history", () => {
  it("has one operation per item, each with its own outcome", async () => {
    const value = await recorder.call("ack", items, async () => ({
      value: "answer",
      items: [
        { ...items[0], type: "ok", answer: "applied" },
        { ...items[1], type: "fail", answer: "lostClaim" },
      ],
    }));
    expect(value).toBe("answer");
    expect(read()).toMatchObject([
      { p: "p", op: "ack", ...items[0], type: "ok" },
      { p: "p", op: "ack", ...items[1], type: "fail", answer: "lostClaim" },
    ]);
    for (const { t0, t1 } of read()) expect(t0).toBeLessThanOrEqual(t1);
  });

  it.each([
    ["a refusal", new DovecoteError("STORE_BUSY", "busy"), "fail", "STORE_BUSY"],
    [
      "a lost reply",
      new DovecoteError("CONNECTION_LOST", "lost", { ambiguous: true }),
      "info",
      "CONNECTION_LOST",
    ],
    ["an error of no type", new TypeError("broken"), "info", "untyped TypeError: broken"],
  ])("tells what %s means for every item", async (_what, error, type, answer) => {
    const value = await recorder.call("ack", items, () => Promise.reject(error));
    expect(value).toBeUndefined();
    expect(read()).toMatchObject(items.map((item) => ({ ...item, type, answer })));
  });

  it("shows an error of a call that named nothing", async () => {
    await recorder.call("claim", [], () => Promise.reject(new DovecoteError("STORE_BUSY", "busy")));
    expect(read()).toMatchObject([{ op: "claim", type: "fail", answer: "STORE_BUSY" }]);
  });

  it("keeps a call that was killed, with all that it was about, as one of unknown outcome", async () => {
    await recorder.call("ack", items, async () => ({ value: null, items: [] }));
    const [call = "", completion = ""] = readFileSync(file, "utf8").split("\n");
    for (const text of [`${call}\n`, `${call}\n${completion.slice(0, 9)}`]) {
      expect(read(text)).toMatchObject(
        items.map((item) => ({ ...item, type: "info", t1: Number.POSITIVE_INFINITY })),
      );
    }
    expect(read(call.slice(0, 20))).toEqual([]);
  });

  it("is written call by call, so that whoever reads it later misses nothing", async () => {
    await recorder.call("ack", items, async () => {
      expect(read()).toMatchObject([{ type: "info" }, { type: "info" }]);
      return { value: null, items: [] };
    });
  });
});
