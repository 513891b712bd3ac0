/** A file of this computer as a draft: read to the letter, or refused in a sentence. */

/** As the server has it (headway/jobfile/check.py). */
export const MOST_BYTES = 8 * 2 ** 20;

export type Opened = { readonly text: string } | { readonly why: string };

export async function openedFile(file: File): Promise<Opened> {
  const named = `${file.name} was not opened:`;
  if (file.size > MOST_BYTES) {
    return { why: `${named} it has ${(file.size / 2 ** 20).toFixed(1)} MiB, and a job file has up to ${MOST_BYTES / 2 ** 20} MiB. Split the job.` };
  }
  let bytes: Uint8Array;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    return { why: `${named} the browser can't read it. See whether it is still there and whether you may read it.` };
  }
  const read = textIn(bytes);
  return "why" in read ? { why: `${named} ${read.why}` } : read;
}

/** The text of a file in UTF-8, without a byte-order mark; or what else it is. */
export function textIn(bytes: Uint8Array): Opened {
  const [a, b, c, d] = bytes;
  if ((a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff) || (a === 0 && b === 0 && c === 0xfe && d === 0xff)) {
    return { why: "the file is UTF-16 or UTF-32. Save it as UTF-8." };
  }
  const wrong = firstWrong(bytes);
  if (wrong < 0) return { text: new TextDecoder().decode(bytes) };
  const before = bytes.subarray(0, wrong);
  const start = before.lastIndexOf(0x0a) + 1;
  const line = before.reduce((sum, byte) => (byte === 0x0a ? sum + 1 : sum), 1);
  const column = [...new TextDecoder().decode(before.subarray(start))].length + 1;
  const byte = `0x${(bytes[wrong] ?? 0).toString(16).toUpperCase().padStart(2, "0")}`;
  const what = bytes[wrong] === 0 ? `is in no text` : "is not UTF-8";
  return { why: `line ${line}, column ${column}: the byte ${byte} ${what}. Save the file as UTF-8.` };
}

/** Where the first byte is that belongs to no character of a text; -1: all do. */
function firstWrong(bytes: Uint8Array): number {
  let at = 0;
  while (at < bytes.length) {
    const length = lengthAt(bytes, at);
    if (length === 0) return at;
    at += length;
  }
  return -1;
}

/** How many bytes the character has that begins there; 0: none begins there. The table is that of the Unicode standard. */
function lengthAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return first === 0 ? 0 : 1;
  const length = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3 : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  for (let i = 1; i < length; i++) {
    const byte = bytes[at + i] ?? 0;
    if (i === 1 ? byte < low || byte > high : byte < 0x80 || byte > 0xbf) return 0;
  }
  return length;
}
