/** Being told to stop, by a signal or because nobody reads the output any more. */
interface Interruption {
  readonly signal: AbortSignal;
  /** As shells have it: 128 and the number of the signal. */
  exitCode(): number;
  stop(): void;
}

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGPIPE: 141 } as const;

type Name = keyof typeof EXIT_CODES;

export function interruption(): Interruption {
  const controller = new AbortController();
  let heard: Name = "SIGINT";
  const on = (name: Name) => () => {
    if (controller.signal.aborted) return;
    heard = name;
    controller.abort(new Error("the run was ended"));
  };
  const listeners = { SIGINT: on("SIGINT"), SIGTERM: on("SIGTERM") };
  const onError = on("SIGPIPE");
  for (const [name, listener] of Object.entries(listeners)) process.on(name, listener);
  process.stdout.on("error", onError);
  return {
    signal: controller.signal,
    exitCode: () => EXIT_CODES[heard],
    stop() {
      for (const [name, listener] of Object.entries(listeners)) process.off(name, listener);
    },
  };
}
