/** The line at the end of a terminal's output that says what is going on. Elsewhere there is none. */
const TICK_MS = 200;
const CLEAR_LINE = "\r\x1b[2K";

interface StatusLine {
  show(text: string): void;
  clear(): void;
  end(): void;
}

export function statusLine(): StatusLine {
  const { stdout } = process;
  if (!stdout.isTTY) return { show() {}, clear() {}, end() {} };
  const begun = performance.now();
  let shown: string | undefined;
  const draw = (): void => {
    if (shown === undefined) return;
    const seconds = ((performance.now() - begun) / 1000).toFixed(0);
    stdout.write(`${CLEAR_LINE}${`${seconds} s  ${shown}`.slice(0, stdout.columns - 1)}`);
  };
  const timer = setInterval(draw, TICK_MS);
  timer.unref();
  const clear = (): void => {
    if (shown !== undefined) stdout.write(CLEAR_LINE);
    shown = undefined;
  };
  return {
    show(text) {
      shown = text;
      draw();
    },
    clear,
    end() {
      clear();
      clearInterval(timer);
    },
  };
}
