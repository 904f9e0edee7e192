/** Telling what happens, as it happens. */
const started = performance.now();

export function tell(who: string, text: string): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(2).padStart(5);
  console.log(`${seconds} s  ${who.padEnd(8)} ${text}`);
}
