/** Durations as job files have them. The server decides; this is for showing at once what it would come to. */

const UNIT_S: { readonly [unit: string]: number } = { d: 86_400, h: 3_600, m: 60, s: 1 };

/** Seconds of `90s`, `15m`, `1h30m`, `1.5h`, `01:30:00`; null where the server would have a word to say. */
export function seconds(text: string): number | null {
  const clock = /^(\d{1,4}):([0-5]\d):([0-5]\d)$/.exec(text);
  if (clock) return 3_600 * Number(clock[1]) + 60 * Number(clock[2]) + Number(clock[3]) || null;
  const one = /^(\d+(?:\.\d+)?)([dhms])$/.exec(text);
  if (one) return Number(one[1]) * (UNIT_S[one[2] ?? ""] ?? 0) || null;
  if (!/^(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s)?$/.test(text)) return null;
  return [...text.matchAll(/(\d+)([dhms])/g)].reduce((sum, [, n, unit]) => sum + Number(n) * (UNIT_S[unit ?? ""] ?? 0), 0) || null;
}
