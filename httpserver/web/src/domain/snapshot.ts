/** Which files of a chosen folder go into a snapshot of code, and what the server is told of them. */
import ignore, { type Ignore } from "ignore";

import { sha256 } from "./sha256";

export interface CodeFile {
  /** Inside the folder, with slashes. */
  readonly path: string;
  readonly file: File;
}

export interface Described {
  readonly path: string;
  readonly sha256: string;
  readonly size_bytes: number;
  readonly executable: boolean;
}

export interface CodeLimits {
  readonly files: number;
  readonly bytes: number;
}

/** What a page can read into its memory without a long wait. */
export const LIMITS: CodeLimits = { files: 20_000, bytes: 512 * 2 ** 20 };

/** Never code, whatever .gitignore says. */
const NEVER = [".git/", "__pycache__/", ".venv/", "node_modules/"];

/** The files of a folder as `<input webkitdirectory>` gives them, the folder's own name taken off. */
export function inside(files: readonly File[]): { readonly name: string; readonly files: readonly CodeFile[] } {
  const name = files[0]?.webkitRelativePath.split("/")[0] ?? "";
  return {
    name,
    files: files.map((file) => ({ path: file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file })),
  };
}

/** Without what .gitignore files leave out; a deeper file speaks of what lies below it. */
export async function chosen(files: readonly CodeFile[]): Promise<readonly CodeFile[]> {
  const rules: { readonly below: string; readonly ignored: Ignore }[] = [{ below: "", ignored: ignore().add(NEVER) }];
  const own = files.filter((f) => f.path === ".gitignore" || f.path.endsWith("/.gitignore"));
  own.sort((a, b) => a.path.length - b.path.length);
  for (const { path, file } of own) rules.push({ below: path.slice(0, -".gitignore".length), ignored: ignore().add(await file.text()) });
  return files
    .filter(({ path }) => {
      let out = false;
      for (const { below, ignored } of rules) {
        if (!path.startsWith(below)) continue;
        const said = ignored.test(path.slice(below.length));
        if (said.ignored) out = true;
        else if (said.unignored) out = false;
      }
      return !out;
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

const hex = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");

const BREATH_MS = 50;
let breathed = 0;

/** Lets the browser draw and answer now and then: many small files are read in one go else. */
async function breath(): Promise<void> {
  if (performance.now() - breathed < BREATH_MS) return;
  await new Promise((done) => setTimeout(done, 0));
  breathed = performance.now();
}

/** The browser's own is quicker, but kept from pages that came by plain http. */
const digestOf = async (bytes: ArrayBuffer): Promise<ArrayBuffer> =>
  globalThis.crypto.subtle === undefined ? sha256(bytes) : globalThis.crypto.subtle.digest("SHA-256", bytes);

async function read(path: string, file: File): Promise<ArrayBuffer> {
  try {
    return await file.arrayBuffer();
  } catch {
    throw new Error(`The browser could not read ${path}: It was changed or deleted, or you may not read it. Choose the folder again.`);
  }
}

/**
 * Hashes the files. A browser does not tell which are executable: those that begin with `#!` are taken to be.
 *
 * Throws an Error, a sentence, when there are too many or one can't be read.
 */
export async function manifestOf(
  files: readonly CodeFile[],
  onProgress: (share: number) => void = () => undefined,
  limits: CodeLimits = LIMITS,
): Promise<Described[]> {
  const total = files.reduce((sum, f) => sum + f.file.size, 0);
  if (files.length === 0) throw new Error("The folder has no files besides those that .gitignore leaves out.");
  if (files.length > limits.files || total > limits.bytes) {
    throw new Error(
      `The folder has ${files.length} files of ${Math.round(total / 2 ** 20)} MiB; the page takes up to ${limits.files} files and ${limits.bytes / 2 ** 20} MiB. ` +
        "Name large data in .gitignore, or use `headway submit --code`.",
    );
  }
  const described: Described[] = [];
  let done = 0;
  for (const { path, file } of files) {
    const bytes = await read(path, file);
    const start = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength));
    described.push({
      path,
      sha256: hex(await digestOf(bytes)),
      size_bytes: bytes.byteLength,
      executable: start[0] === 0x23 && start[1] === 0x21,
    });
    done += file.size;
    onProgress(total > 0 ? done / total : 1);
    await breath();
  }
  return described;
}
