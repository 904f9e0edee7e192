/**
 * The floor: the product's tables, with their checks, foreign key and indexes, and the transaction guard, worked by hand
 * on the client. No API, no validation, no other scope than all, no refusals: what is left when everything that can be
 * left out is.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Sql } from "postgres";

export interface FloorEvent {
  readonly stream: string;
  readonly source: string;
  readonly type: string;
  readonly data: unknown;
}

interface FloorClaim {
  readonly rowId: string;
  readonly attempt: number;
  readonly token: string;
  readonly event: unknown;
}

export class PostgresFloor {
  readonly #sql: Sql;
  readonly #enqueue: string;
  readonly #claim: string;
  readonly #ack: string;

  constructor(sql: Sql, schema: string) {
    this.#sql = sql;
    const events = `${schema}.dovecote_events`;
    const deliveries = `${schema}.dovecote_deliveries`;
    this.#enqueue = `with inserted as (
      insert into ${events} (tenant_id, stream, specversion, event_id, source, event_type, datacontenttype,
        data_kind, data, enqueued_at, identity_digest)
      select 'default', stream, '1.0', id, source, type, 'application/json', 'json', convert_to(data, 'UTF8'),
        clock_timestamp(), decode(digest, 'hex')
      from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        as i (stream, id, source, type, data, digest)
      where current_setting('bench.transaction', true) = $1
      on conflict (identity_digest) do nothing
      returning row_id, stream
    )
    insert into ${deliveries} (event_row_id, tenant_id, stream, state, available_at, attempts, forgiven)
    select row_id, 'default', stream, 'pending', clock_timestamp(), 0, 0 from inserted
    returning event_row_id`;
    const due = (state: string, at: string): string => `select event_row_id, ${at} as at from ${deliveries}
      where state = '${state}' and ${at} <= statement_timestamp() order by ${at}, event_row_id
      limit (select $1::int) for update skip locked`;
    this.#claim = `with expired as materialized (${due("claimed", "claim_expires_at")}
    ), due as materialized (${due("pending", "available_at")}
    ), picked as materialized (
      select event_row_id, row_number() over (order by event_row_id) as place from (
        select event_row_id from (
          select 1 as kind, * from expired union all select 2, * from due
        ) as candidates order by kind, at, event_row_id limit $1::int
      ) as first
    ), claimed as (
      update ${deliveries} as d set state = 'claimed', attempts = d.attempts + 1,
        forgiven = d.forgiven + case when d.claim_shared then 1 else 0 end,
        claim_token = ((select $3::text::bytea[])::bytea[])[width_bucket(d.event_row_id, (select array_agg(event_row_id order by event_row_id) from picked))],
        claimed_by = $2, claim_shared = false, claim_expires_at = clock_timestamp() + interval '30 seconds'
      where d.event_row_id = any (array(select event_row_id from picked))
      returning d.event_row_id, d.attempts, d.claim_token
    )
    select c.event_row_id as "rowId", c.attempts as attempt, c.claim_token as token, e.event_id, e.source, e.event_type,
      e.stream, e.data
    from claimed c cross join lateral (select * from ${events} where row_id = c.event_row_id offset 0) as e`;
    this.#ack = `with locked as materialized (
      select event_row_id, claim_token, attempts, claim_expires_at,
        width_bucket(event_row_id, (select $1::text::bigint[])) as place
      from ${deliveries} where event_row_id = any ((select $1::text::bigint[])::bigint[]) order by event_row_id for update
    ), held as materialized (
      select event_row_id from locked where claim_token = ((select $3::text::bytea[])::bytea[])[place]
        and attempts = ((select $2::text::integer[])::integer[])[place]
        and claim_expires_at > clock_timestamp()
    )
    update ${deliveries} set state = 'delivered', delivered_at = clock_timestamp(), claim_token = null,
      claimed_by = null, claim_shared = null, claim_expires_at = null
    where event_row_id = any (array(select event_row_id from held)) returning event_row_id`;
  }

  /** In a transaction of its own, guard and insert pipelined. */
  async enqueue(events: readonly FloorEvent[]): Promise<void> {
    const guard = randomUUID();
    const ids = events.map(() => randomUUID());
    const columns = [
      events.map(({ stream }) => stream),
      ids,
      events.map(({ source }) => source),
      events.map(({ type }) => type),
      events.map(({ data }) => JSON.stringify(data)),
      events.map(({ source }, at) => createHash("sha256").update(`${source} ${ids[at]}`).digest("hex")),
    ];
    await this.#sql.begin((tx) => [
      tx`select set_config('bench.transaction', ${guard}, true)`,
      tx.unsafe(this.#enqueue, [guard, ...columns], { prepare: true }),
    ]);
  }

  /** Claims and acknowledges everything, by batches; answers how many. */
  async drain(batch: number): Promise<number> {
    for (let done = 0; ; ) {
      const claims = await this.#claimBatch(batch);
      if (claims.length === 0) return done;
      const acked = await this.#ackBatch(claims);
      if (acked !== claims.length)
        throw new Error(`${acked} of ${claims.length} claims could be acknowledged`);
      done += acked;
    }
  }

  async #claimBatch(limit: number): Promise<readonly FloorClaim[]> {
    const bytes = randomBytes(limit * 16);
    const tokens = Array.from({ length: limit }, (_, at) => bytes.toString("hex", at * 16, at * 16 + 16));
    const literal = `{${tokens.map((token) => `"\\\\x${token}"`).join(",")}}`;
    const rows = await this.#sql.unsafe(this.#claim, [limit, "floor", literal], { prepare: true });
    return rows.map(({ rowId, attempt, token, data, ...event }) => ({
      rowId,
      attempt,
      token: token.toString("hex"),
      event: { ...event, data: JSON.parse(data.toString()) },
    }));
  }

  async #ackBatch(claims: readonly FloorClaim[]): Promise<number> {
    const sorted = claims.toSorted((a, b) => Number(a.rowId) - Number(b.rowId));
    const rows = await this.#sql.unsafe(
      this.#ack,
      [
        `{${sorted.map(({ rowId }) => rowId)}}`,
        `{${sorted.map(({ attempt }) => attempt)}}`,
        `{${sorted.map(({ token }) => `"\\\\x${token}"`)}}`,
      ],
      { prepare: true },
    );
    return rows.length;
  }
}
