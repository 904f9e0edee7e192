/**
 * How often the cases that need several sessions notice drivers that break what they test, measured on SQLite and Postgres
 * with two cores. Written by scripts/write-kill-rates.ts, keyed by id and intent.
 */
export interface KillRate {
  readonly kills: number;
  readonly runs: number;
}

export const KILL_RATES: Readonly<Record<string, KillRate>> = {
  "CLAIM-03: processes that drain events together claim each of them once: no event has two live claims": {
    kills: 40,
    runs: 40,
  },
  "CLAIM-08: a locked row is skipped; where the lock is the database's, a claim waits for it without blocking":
    { kills: 60, runs: 60 },
  "CLAIM-11: a stuck or poisonous event does not stop the others": { kills: 40, runs: 40 },
  "CLOCK-01: a lease expires by itself, not early, and within 2 s": { kills: 80, runs: 80 },
  "CLOCK-02: a worker whose clock is an hour off neither steals nor loses, and writes the database's times": {
    kills: 80,
    runs: 80,
  },
  "ERR-02: a full disk is STORE_FULL, not retryable; nothing is half-written, and the store works once there is room":
    { kills: 40, runs: 40 },
  "ERR-02: busy and deadlock errors are retryable, and the same call made again succeeds": {
    kills: 40,
    runs: 40,
  },
  "ERR-02: what the same call, made again, would meet again is not retryable": { kills: 40, runs: 40 },
  "FENCE-09: a settle that waits for a lock past its expiry, beside a claim: the claim wins, never both": {
    kills: 40,
    runs: 40,
  },
  "FENCE-09: settle(old) racing claim(new) after the expiry: the claim wins, always": { kills: 40, runs: 40 },
  "FENCE-10: an operator's quarantine racing a claim: one of them, never both": { kills: 40, runs: 40 },
  "FENCE-10: prune racing redrive of a quarantined row: one of them, never both": { kills: 40, runs: 40 },
  "FENCE-10: redrives racing each other and a claim: one applies, and the claim stays whole": {
    kills: 40,
    runs: 40,
  },
  "ID-04: concurrent enqueues of one event: one is enqueued, the others find it": { kills: 80, runs: 80 },
  "ID-04: concurrent enqueues of one identity with different content: one content wins, the other conflicts":
    { kills: 40, runs: 40 },
  "INBOX-01: consumers in several processes that are given the same event at once: one does it, the others have seen it":
    { kills: 20, runs: 20 },
  "KEY-03: a sweep racing begins of records that are worth nothing: each is acquired once, and none is swept afterwards":
    { kills: 40, runs: 40 },
  "KEY-03: processes that begin the same key at once: one acquires it, the others are told that it is in flight":
    { kills: 60, runs: 60 },
  "KEY-08: a claim whose lease is over is taken over by one of several processes, and its old holder writes nothing":
    { kills: 60, runs: 60 },
  "KEY-08: a held claim is completed however long its lease is over, and its handle is good for its transaction alone":
    { kills: 40, runs: 40 },
  "KEY-08: processes that refuse and processes that take over, at once, after the lease: one way, and it stays":
    { kills: 40, runs: 40 },
  "KEY-08: what waits for a lock past its lease is refused: the lease is judged when the lock is had": {
    kills: 99,
    runs: 100,
  },
  "KEY-15: begin answers while the owner's business transaction is open: it reads, and waits for nobody": {
    kills: 80,
    runs: 80,
  },
  "LEASE-02: an expired lease is taken over by exactly one of the contenders, with a fresh token": {
    kills: 40,
    runs: 40,
  },
  "LEASE-05: renew racing a takeover of a live lease: renew wins, and the takeover gets nothing": {
    kills: 40,
    runs: 40,
  },
  "LEASE-05: renew racing a takeover of an expired lease: the takeover wins, and renew loses": {
    kills: 40,
    runs: 40,
  },
  "LEASE-05: renew racing a takeover while the lease expires: never both": { kills: 40, runs: 40 },
  "LIFE-05: after close nothing of the store keeps the process alive: no timer, no watcher": {
    kills: 40,
    runs: 40,
  },
  "PAGE-03: a snapshot releases its connection on completion, break, error, close and dispose": {
    kills: 20,
    runs: 20,
  },
  "PAGE-03: a snapshot sees one state across its pages, and ends at its own upper bound": {
    kills: 80,
    runs: 80,
  },
  "PAGE-04: a tail goes on when the last events were another tenant's, of another stream, or were pruned": {
    kills: 40,
    runs: 40,
  },
  "PAGE-04: a tail says how far it is behind, and that a transaction which stays open for seconds holds it up":
    { kills: 60, runs: 60 },
  "PAGE-04: an event of a transaction that began earlier but wrote later does not let another be skipped": {
    kills: 20,
    runs: 20,
  },
  "PAGE-04: an event that commits late is yielded, before or after waiting, never skipped": {
    kills: 40,
    runs: 40,
  },
  "PAGE-04: tail yields what is there and what comes, in row-id order, and ends with its signal": {
    kills: 40,
    runs: 40,
  },
  "RELAY-01: a handler longer than its lease is run once, while another relay looks for work": {
    kills: 40,
    runs: 40,
  },
  "RELAY-07: on shutdown what was not started is released at once, what ended is settled, the rest keeps its lease":
    { kills: 40, runs: 40 },
  "SCHEMA-03: processes that migrate at once all succeed, and each version is applied once": {
    kills: 40,
    runs: 40,
  },
  "TX-07: a lifecycle call made inside the application's own callback is no part of its transaction": {
    kills: 20,
    runs: 20,
  },
  "TX-07: a lifecycle call waits for an open transaction, or runs beside it, and never joins it": {
    kills: 40,
    runs: 40,
  },
  "TX-07: inside our own transaction a lifecycle call is refused, or runs beside it": { kills: 20, runs: 20 },
  "TX-11: a transaction that failed at its end and is run again yields one event": { kills: 40, runs: 40 },
  "TX-11: contenders that are refused as busy or unserializable and try again yield one event": {
    kills: 20,
    runs: 20,
  },
  "WAKE-01: a wake-up arrives after the commit, in the application's transaction and in ours": {
    kills: 60,
    runs: 60,
  },
};
