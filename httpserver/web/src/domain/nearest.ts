/** Names that a reader may have meant. */

/** So many are compared: one page must not hang over a typing error. */
const MOST_COMPARED = 20_000;
const LONGEST = 64;

/** How many letters must be put in, taken out or changed to make one of the other. */
export function distance(a: string, b: string): number {
  let before = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (before[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(changed, (before[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    before = row;
  }
  return before[b.length] ?? 0;
}

/** The nearest of these names, the nearest first. */
export function nearest(wanted: string, names: readonly string[], most = 3): string[] {
  const asked = wanted.slice(0, LONGEST).toLowerCase();
  return names
    .slice(0, MOST_COMPARED)
    .map((name, i) => ({ name, i, cost: distance(asked, name.slice(0, LONGEST).toLowerCase()) }))
    .sort((a, b) => a.cost - b.cost || a.i - b.i)
    .slice(0, most)
    .map(({ name }) => name);
}
