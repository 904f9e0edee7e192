const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

const MONTH_DAYS: readonly number[] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const DAY_MINUTES = 24 * 60;

/**
 * Whether a text is a `date-time` of RFC 3339 section 5.6, calendar rules of section 5.7 included. Decisions:
 *
 * - Lower-case `t` and `z` are accepted: ABNF text is case-insensitive, and the note in 5.6 says so. A space instead
 *   of the `T` is not: the grammar has none.
 * - A second of 60 is accepted only at 23:59:60 UTC on 30 June or 31 December, in any offset: the months that 5.7
 *   names. Whether that year had a leap second is not checked, there is no table to grow stale.
 * - `-00:00` (offset unknown, section 4.3) and any number of fraction digits from one up are accepted.
 *
 * `Date` takes no part: it rolls 31 April over, and keeps neither the offset nor digits beyond milliseconds.
 */
export function isRfc3339(text: string): boolean {
  const match = DATE_TIME.exec(text);
  if (match === null) return false;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number);
  if (month < 1 || month > 12 || day < 1 || day > monthDays(year, month)) return false;
  if (hour > 23 || minute > 59 || second > 60) return false;
  const offsetHour = Number(match[8] ?? 0);
  const offsetMinute = Number(match[9] ?? 0);
  if (offsetHour > 23 || offsetMinute > 59) return false;
  if (second < 60) return true;
  const offset = (match[7] === "-" ? -1 : 1) * (offsetHour * 60 + offsetMinute);
  return isLeapMinute(month, day, hour * 60 + minute - offset);
}

/** Whether a minute, counted in UTC from the start of the given *local* day, is the last of June or of December. */
function isLeapMinute(month: number, day: number, utcMinute: number): boolean {
  if (utcMinute === DAY_MINUTES - 1) return (month === 6 && day === 30) || (month === 12 && day === 31);
  // East of Greenwich the leap second falls on the next local day. West of it, it stays on the same one.
  if (utcMinute === -1) return (month === 7 || month === 1) && day === 1;
  return false;
}

function monthDays(year: number, month: number): number {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 && leap ? 29 : (MONTH_DAYS[month - 1] ?? 0);
}
