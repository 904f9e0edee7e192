import { setImmediate as turn } from "node:timers/promises";
import { overrideKeys, sqlMutant } from "@dovecote/conformance";
import { complete, release, renew } from "../../src/keys.ts";
import type { SqliteMutant } from "./define.ts";
import { atTheTimeOfTheCall } from "./stopped-clock.ts";

const TOKEN = "and claim_token = :token";
const NO_TOKEN = "and :token is not null";
const EXPIRY = "and claim_expires_at > :now";
const NO_EXPIRY = "and :now > 0";

export const keys: readonly SqliteMutant[] = [
  {
    name: "answers-commit-before-the-caller",
    breaks: "KEY-06",
    because: /after a rollback must be inFlight/,
    wrap: (driver, client) =>
      overrideKeys(driver, (original) => ({
        completeHeldIn(tx, proof, answer) {
          const outcome = original.completeHeldIn(tx, proof, answer);
          client.exec("commit; begin immediate");
          return outcome;
        },
      })),
  },
  ...(["keyComplete", "keyRenew", "keyRelease"] as const).flatMap((statement) => {
    const verb = statement.slice("key".length).toLowerCase();
    return [
      sqlMutant(
        `sql-${verb}-key-without-token`,
        "KEY-07",
        new RegExp(`a superseded ${verb} must be refused .* but it was accepted`),
        statement,
        TOKEN,
        NO_TOKEN,
      ),
      sqlMutant(
        `sql-${verb}-key-without-expiry`,
        "KEY-07",
        new RegExp(`a late ${verb} must be refused .* but it was accepted`),
        statement,
        EXPIRY,
        NO_EXPIRY,
      ),
    ];
  }),
  {
    name: "keys-judge-the-lease-before-the-lock",
    breaks: "KEY-08",
    because: /that waited past its lease must be refused .* but it was accepted/,
    wrap: (driver, client) =>
      overrideKeys(driver, () => ({
        complete: (proof, answer) =>
          atTheTimeOfTheCall(client, (connection) => complete(connection, proof, answer)),
        renew: (proof, leaseMs) =>
          atTheTimeOfTheCall(client, (connection) => renew(connection, proof, leaseMs)),
        release: (proof) => atTheTimeOfTheCall(client, (connection) => release(connection, proof)),
      })),
  },
  sqlMutant("sql-hold-without-token", "KEY-07", /a zombie.* but it was accepted/, "keyHold", TOKEN, NO_TOKEN),
  {
    name: "sweep-looks-before-it-deletes",
    breaks: "KEY-03",
    because: /must be acquired by one of them|must be stored with the token|must leave what was acquired/,
    wrap: (driver, client) =>
      overrideKeys(driver, () => ({
        async sweep(_tenant, limit) {
          const old = client
            .prepare(
              `select rowid from dovecote_idempotency_keys
                where sweep_at <= cast(round(unixepoch('subsec') * 1000) as integer) * 1000 limit ?`,
            )
            .pluck()
            .all(limit);
          // Others come in between.
          const until = performance.now() + 3;
          while (performance.now() < until);
          const remove = client.prepare("delete from dovecote_idempotency_keys where rowid = ?");
          return old.reduce<number>((sum, rowid) => sum + remove.run(rowid).changes, 0);
        },
      })),
  },
  {
    name: "begin-locks-before-it-reads",
    breaks: "KEY-15",
    because: /must be answered/,
    wrap: (driver, client) =>
      overrideKeys(driver, (original) => ({
        async begin(request) {
          for (const end = performance.now() + 8000; performance.now() < end; await turn()) {
            try {
              client.exec("begin immediate; commit");
              break;
            } catch {
              // Still locked.
            }
          }
          return original.begin(request);
        },
      })),
  },
];
