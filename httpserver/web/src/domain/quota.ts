/** Quotas of personal spaces as people write them. The server decides; this makes bytes of text, and text of bytes. */

const UNITS: { readonly [unit: string]: number } = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
};
const MOST = 2 ** 50;

export const NO_LIMIT = 0;
export const AS_CONFIGURED = -1;
/** What the choice of no limit is called beside the others. */
export const NO_LIMIT_CHOICE = "as much as there is room for";

/** Bytes of `50GiB`, `1.5 TB`; or what is wrong with it, as a sentence. */
export function quotaBytes(text: string): number | string {
  const wanted = text.trim();
  if (wanted === "") return "Write a size, for instance 50GiB.";
  const parts = /^(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]+)$/.exec(wanted);
  const unit = UNITS[parts?.[2] ?? ""];
  if (parts === null || unit === undefined) {
    return /^\d+(\.\d+)?$/.test(wanted)
      ? "Write the unit, too, for instance 50GiB."
      : "Write a number above 0 and one of the units B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, for instance 50GiB.";
  }
  const bytes = Math.floor(Number(parts[1]) * unit);
  if (bytes < 1) return `That is less than one byte. Choose “${NO_LIMIT_CHOICE}” where no limit is meant.`;
  return bytes > MOST ? `That is more than 1024TiB. Choose “${NO_LIMIT_CHOICE}” where no limit is meant.` : bytes;
}

/** The shortest exact form: 50GiB, 8GB, 1234B. `quotaBytes` reads it back to the same number. */
export function quotaText(bytes: number): string {
  let best = `${bytes}B`;
  for (const [unit, size] of Object.entries(UNITS)) {
    const text = `${bytes / size}${unit}`;
    if (bytes % size === 0 && text.replace("i", "").length < best.replace("i", "").length) best = text;
  }
  return best;
}
