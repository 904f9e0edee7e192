/** A failure as text for a report that is published: what went wrong, and nothing about the machine that it was on. */
import { realpathSync } from "node:fs";
import { homedir, hostname, tmpdir } from "node:os";
import { dirname, parse } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { stripVTControlCharacters } from "node:util";

const SUITE_FOLDER = dirname(dirname(fileURLToPath(import.meta.url)));
const STACK_FRAME = /^\s+at .*\n?/gm;

/** The message with its causes; with the name of an error that is not an assertion's. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message, cause } = error;
  const own = isPlain(name) ? message : `${name}: ${message}`;
  const because = cause instanceof Error && !message.includes(cause.message);
  return because ? `${own}\ncaused by ${messageOf(cause)}` : own;
}

/** Without stack frames, colours, the host's name and the paths of folders of this machine. */
export function anonymous(text: string, harnessUrl?: URL): string {
  let clean = stripVTControlCharacters(text).replace(STACK_FRAME, "");
  for (const [path, name] of places(harnessUrl)) {
    clean = clean.replaceAll(pathToFileURL(path).href, name).replaceAll(path, name);
  }
  const host = hostname();
  if (host === "" || host === "localhost") return clean.trimEnd();
  return clean.replaceAll(new RegExp(`(?<![\\w-])${escaped(host)}(?![\\w-])`, "g"), "<host>").trimEnd();
}

function isPlain(name: string): boolean {
  return ["AssertionError", "HarnessError", "TimeLimitError"].includes(name);
}

/** Longest first: one may lie inside another. */
function places(harnessUrl: URL | undefined): readonly (readonly [path: string, name: string])[] {
  const named: [string, string][] = [
    [SUITE_FOLDER, "@dovecote/conformance"],
    [process.cwd(), "."],
    [tmpdir(), "<tmp>"],
    [homedir(), "~"],
  ];
  if (harnessUrl?.protocol === "file:") named.push([dirname(fileURLToPath(harnessUrl)), "<harness>"]);
  return named
    .flatMap(([path, name]): [string, string][] => [
      [path, name],
      [realPath(path), name],
    ])
    .filter(([path]) => path !== parse(path).root)
    .sort(([a], [b]) => b.length - a.length);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
