/** Tar archives of plain files, written in the browser (ustar). */

const BLOCK = 512;

function header(name: string, size: number): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const write = (text: string, at: number): void => block.set(new TextEncoder().encode(text), at);
  if (new TextEncoder().encode(name).length > 100) throw new Error(`A name in an archive is too long: ${name}`);
  write(name, 0);
  write("0000644\0", 100);
  write("0000000\0", 108);
  write("0000000\0", 116);
  write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  write("00000000000\0", 136);
  write("        ", 148);
  write("0", 156);
  write("ustar\x0000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** Files of at most 8 GiB each; nothing is read before the archive is. */
export function tarOf(members: readonly { readonly name: string; readonly blob: Blob }[]): Blob {
  const parts: BlobPart[] = [];
  for (const { name, blob } of members) {
    parts.push(header(name, blob.size), blob);
    const rest = blob.size % BLOCK;
    if (rest > 0) parts.push(new Uint8Array(BLOCK - rest));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts, { type: "application/x-tar" });
}
