import type { PostgresMutant } from "./define.ts";

const PICKED = "where d.event_row_id = any ((select ids from arranged)::bigint[])";

/** Mutants that hold on a session as it comes, and are noticed on one with hostile settings. */
export const hostile: readonly PostgresMutant[] = [
  {
    name: "sql-claim-in-subquery",
    breaks: "CLAIM-01",
    because: /hostile|more than/,
    // The classic. The planner may run the subquery once per row of the table, each time with other rows left.
    texts(original) {
      const [before, after, ...others] = original.claimTenant.split(PICKED);
      const deliveries = /update (\S+) as d/.exec(before ?? "")?.[1];
      if (after === undefined || others.length > 0 || deliveries === undefined)
        throw new Error("mutant sql-claim-in-subquery: the pattern must match exactly once in claimTenant");
      const subquery = `where d.event_row_id in (select event_row_id from ${deliveries}
        where (state = 'pending' and available_at <= clock_timestamp())
          or (state = 'claimed' and claim_expires_at <= clock_timestamp())
        order by event_row_id limit $1::text::integer for update skip locked)`;
      return { ...original, claimTenant: `${before}${subquery}${after}` };
    },
  },
];
