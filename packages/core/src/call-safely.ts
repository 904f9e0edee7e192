/**
 * Calls what an application gave, which may be asynchronous although its type says nothing of it: neither what it throws
 * nor what it rejects with may end the process, or keep anything waiting.
 */
export function callSafely(call: () => unknown, onFailure: (thrown: unknown) => void = () => {}): void {
  try {
    Promise.resolve(call()).catch(onFailure);
  } catch (thrown) {
    onFailure(thrown);
  }
}
