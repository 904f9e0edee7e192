/** Reads as much of an answer as is worth it. */

const MAX_BYTES = 64 * 1024;
/** The status has come by then; what a slow receiver adds to it is not worth waiting for. */
const MAX_MS = 1000;

/**
 * The start of the body of an answer. Reads the body to its end, so that the connection can be used again, unless it is
 * larger or slower than it should be: then it is cancelled, and the connection with it. Never rejects: the status has
 * decided.
 */
export async function readText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  let timer: NodeJS.Timeout | undefined;
  const slow = new Promise<"slow">((resolve) => {
    timer = setTimeout(resolve, MAX_MS, "slow");
  });
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), slow]);
      if (read === "slow" || bytes > MAX_BYTES) break;
      if (read.done) return text;
      bytes += read.value.length;
      text += decoder.decode(read.value, { stream: true });
    }
  } catch {
    // The connection broke, or the delivery was aborted.
  } finally {
    clearTimeout(timer);
  }
  reader.cancel().catch(() => {});
  return text;
}
