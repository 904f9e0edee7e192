import { expect, it } from "vitest";
import { cases } from "../src/cases/index.ts";
import { KILL_RATES } from "../src/kill-rates.ts";

const ofSeveralSessions = new Set(
  cases.filter(({ level }) => level === 2).map(({ id, intent }) => `${id}: ${intent}`),
);

it("rates are those of cases that there are", () => {
  expect(Object.keys(KILL_RATES).filter((key) => !ofSeveralSessions.has(key))).toEqual([]);
});

it("a case that needs several sessions notices broken drivers 95 times of 100", () => {
  expect(Object.entries(KILL_RATES).filter(([, { kills, runs }]) => kills / runs < 0.95)).toEqual([]);
});

it("every guarantee that needs several sessions has a measured case", () => {
  const measured = new Set(Object.keys(KILL_RATES).map((key) => key.split(":")[0]));
  expect(cases.filter(({ level, id }) => level === 2 && !measured.has(id)).map(({ id }) => id)).toEqual([]);
});
