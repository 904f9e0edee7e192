/**
 * The example of a name in a Markdown page: the first `ts` block after the comment `<!-- example: name -->`. The README
 * shows it, the package checks run it: what a reader copies is what was tested.
 */
export function readmeExample(markdown: string, name: string): string {
  const marker = `<!-- example: ${name} -->`;
  const start = markdown.indexOf(marker);
  if (start === -1) throw new Error(`no ${marker}`);
  const [, code] = /^```ts\n(.*?)^```$/ms.exec(markdown.slice(start + marker.length)) ?? [];
  if (code === undefined) throw new Error(`no \`\`\`ts block after ${marker}`);
  return code;
}
