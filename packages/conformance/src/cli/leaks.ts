/** What a harness leaves behind: connections, files and timers that keep its process from ending by itself (LIFE-05). */

/** For what is closed, and takes its time. */
const GRACE_MS = 3_000;

/** What keeps this process alive, by kind. */
export function activeResources(): readonly string[] {
  // Streams that are opened at their first use are not to be taken for something new.
  void process.stdout;
  void process.stderr;
  return process.getActiveResourcesInfo();
}

/** Waits for the process to have nothing left to do; answers what it still has then, and had not before. */
export function leaksAfter(before: readonly string[]): Promise<readonly string[]> {
  return new Promise((resolve) => {
    const onEmpty = (): void => {
      clearTimeout(timer);
      resolve([]);
    };
    const timer = setTimeout(() => {
      process.off("beforeExit", onEmpty);
      resolve(without(activeResources(), before));
    }, GRACE_MS);
    timer.unref();
    process.once("beforeExit", onEmpty);
  });
}

function without(all: readonly string[], some: readonly string[]): readonly string[] {
  const rest = [...all];
  for (const each of some) {
    const place = rest.indexOf(each);
    if (place >= 0) rest.splice(place, 1);
  }
  // The process lives, whatever its list says.
  return rest.length > 0 ? rest : ["unknown"];
}
