/** The declared fields of a multipart body, read as its bytes pass by (RFC 7578). */

import { type DeclaredField, type Fingerprint, fingerprint } from "@dovecote/core";
import { Busboy, type BusboyInstance } from "@fastify/busboy";
import { Refused } from "./refused.ts";

/** Where a part arrives that can change what the request is, after the file that decided it. */
export class DeclaredParts {
  /** The header of the first file was read: what came before it is all that counts. */
  decided = false;
  readonly #busboy: BusboyInstance;
  readonly #fields: Map<string, string[]>;
  #file: { readonly filename: string | null; readonly type: string | null } | undefined;
  #problem: Refused | undefined;
  readonly #ended: Promise<void>;

  /** @throws Refused if the body is not multipart/form-data, or has no boundary. */
  constructor(contentType: string | undefined, names: readonly string[], maxFieldBytes: number) {
    if (!isMultipart(contentType)) {
      throw new Refused({
        code: "media-type-unsupported",
        detail: "This resource compares fields of multipart/form-data.",
      });
    }
    this.#fields = new Map(names.map((name) => [name, []]));
    const limits = { fieldSize: maxFieldBytes };
    try {
      this.#busboy = Busboy({ headers: { "content-type": contentType ?? "" }, limits });
    } catch {
      throw malformed("It has no boundary.");
    }
    this.#busboy.on("field", (name, value, _nameTruncated, truncated) => this.#field(name, value, truncated));
    this.#busboy.on("file", (name, file, filename, _encoding, type) => {
      file.on("error", () => {}).resume();
      if (this.#fields.has(name) && this.decided) this.#late(name);
      if (!this.decided) this.#file = { filename: filename ?? null, type: type ?? null };
      this.decided = true;
    });
    this.#ended = new Promise((resolve) => {
      this.#busboy.once("finish", resolve);
      this.#busboy.on("error", () => {
        this.#problem ??= malformed("Its parts cannot be read.");
        resolve();
      });
    });
  }

  /** Resolves when everything in the piece was seen. */
  async write(piece: Uint8Array): Promise<void> {
    if (this.#problem !== undefined) return;
    await Promise.race([
      new Promise<void>((resolve) => this.#busboy.write(piece, () => resolve())),
      this.#ended,
    ]);
  }

  /** The body is over. @throws Refused for what cannot be read, and for a declared field after the first file. */
  async end(): Promise<void> {
    this.check();
    this.#busboy.end();
    await this.#ended;
    this.check();
  }

  /** @throws Refused. */
  check(): void {
    if (this.#problem !== undefined) throw this.#problem;
  }

  fingerprint(): Fingerprint {
    const fields: [string, DeclaredField][] = [...this.#fields].map(([name, values]) => [
      `field ${name}`,
      values,
    ]);
    return fingerprint.fields(
      Object.fromEntries(this.#file === undefined ? fields : [...fields, ["file", this.#file]]),
    );
  }

  #field(name: string, value: string, truncated: boolean): void {
    const values = this.#fields.get(name);
    if (values === undefined) return;
    if (this.decided) this.#late(name);
    else if (truncated) this.#problem ??= malformed(`The field ${JSON.stringify(name)} is too long.`);
    else values.push(value.toWellFormed());
  }

  #late(name: string): void {
    this.#problem ??= new Refused({
      code: "field-after-file",
      detail: `The field ${JSON.stringify(name)} must come before the file.`,
    });
  }
}

export function isMultipart(contentType: string | undefined): boolean {
  return /^\s*multipart\/form-data\s*(?:;|$)/i.test(contentType ?? "");
}

function malformed(detail: string): Refused {
  return new Refused({ code: "multipart-malformed", detail });
}
