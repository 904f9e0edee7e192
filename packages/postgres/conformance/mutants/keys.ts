import { overrideKeys, sqlMutant } from "@dovecote/conformance";
import type { PostgresMutant } from "./define.ts";

const TOKEN = "l.claim_token = decode($4::text, 'hex')";
const NO_TOKEN = "$4::text is not null";
const EXPIRY = "l.claim_expires_at > clock_timestamp()";
/** Read before the row is locked. */
const EXPIRY_AT_THE_START = "l.claim_expires_at > statement_timestamp()";

const withoutLock = sqlMutant("", "", /^/, "keysSweep", "for update skip locked", "");
const withoutProof = sqlMutant(
  "",
  "",
  /^/,
  "keysSweep",
  "and t.sweep_at <= clock_timestamp() returning 1",
  "and (select true from pg_sleep(0.003)) returning 1",
);

export const keys: readonly PostgresMutant[] = [
  sqlMutant(
    "sql-begin-by-upsert",
    "KEY-03",
    /must be acquired by one of them/,
    "keyInsert",
    "do nothing",
    "do update set claim_token = excluded.claim_token",
  ),
  {
    name: "answers-outlive-a-rollback",
    breaks: "KEY-06",
    because: /after a rollback must be inFlight/,
    // On a connection of the pool instead of the transaction's.
    wrap: (driver) =>
      overrideKeys(driver, (original) => ({
        holdIn: async () => ({ outcome: "applied" }) as const,
        completeHeldIn: (_tx, proof, answer) => original.complete(proof, answer),
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
        "true",
      ),
      sqlMutant(
        `sql-${verb}-key-judges-before-the-lock`,
        "KEY-08",
        new RegExp(`a ${verb} that waited past its lease must be refused .* but it was accepted`),
        statement,
        EXPIRY,
        EXPIRY_AT_THE_START,
      ),
    ];
  }),
  sqlMutant("sql-hold-without-token", "KEY-07", /a zombie.* but it was accepted/, "keyHold", TOKEN, NO_TOKEN),
  sqlMutant(
    "sql-hold-without-lock",
    "KEY-08",
    /beside a held claim .* must be inFlight, got|that waited past its lease must be refused/,
    "keyHold",
    "for update ",
    "",
  ),
  sqlMutant(
    "sql-key-taken-over-twice",
    "KEY-08",
    /must be acquired by one of them/,
    "keyTakeover",
    `and l.claim_token = decode($12::text, 'hex')
    and l.takeover = 'rerun' and l.claim_expires_at <= clock_timestamp()`,
    "and $12::text is not null",
  ),
  {
    name: "sql-keys-swept-unproven",
    breaks: "KEY-03",
    because: /must be acquired by one of them|must be stored with the token|must leave what was acquired/,
    // Either of the two is enough; without both, what was acquired meanwhile is deleted by its name.
    texts: (original) => withoutProof.texts(withoutLock.texts(original)),
  },
  sqlMutant(
    "sql-begin-locks-what-it-reads",
    "KEY-15",
    /must be answered/,
    "keyGet",
    "tenant_id = $3::text",
    "tenant_id = $3::text for update",
  ),
  {
    name: "inbox-looks-before-it-marks",
    breaks: "INBOX-01",
    because: /consumed once|after a commit the rival must be told so/,
    wrap: (driver, client, schema) =>
      overrideKeys(driver, (original) => ({
        async markIn(tx, mark) {
          const event = Buffer.from(mark.event);
          const table = client(`${schema}.dovecote_inbox`);
          const seen = await client`select 1 from ${table} where event_digest = ${event}`;
          await original.markIn(tx, mark);
          return seen.length === 0 ? "first" : "seen";
        },
      })),
  },
];
