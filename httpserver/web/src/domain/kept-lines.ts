/** The lines of a file that a change left alone, as they were typed. */

/** After so many differing lines the rest counts as changed. */
const MOST_CHANGES = 600;

type Match = readonly (readonly [number, number])[];

/** Pairs of equal lines of two texts, in order, as many as can be (Myers). */
function matched(a: readonly string[], b: readonly string[]): Match {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const inner = between(a.slice(start, a.length - end), b.slice(start, b.length - end)).map(([i, j]) => [i + start, j + start] as const);
  const first = Array.from({ length: start }, (_, i) => [i, i] as const);
  const last = Array.from({ length: end }, (_, i) => [a.length - end + i, b.length - end + i] as const);
  return [...first, ...inner, ...last];
}

function between(a: readonly string[], b: readonly string[]): Match {
  const most = Math.min(MOST_CHANGES, a.length + b.length);
  const trace: Map<number, number>[] = [];
  let reach = new Map<number, number>([[1, 0]]);
  for (let changes = 0; changes <= most; changes++) {
    trace.push(new Map(reach));
    const next = new Map(reach);
    for (let k = -changes; k <= changes; k += 2) {
      const down = k === -changes || (k !== changes && (next.get(k - 1) ?? -1) < (next.get(k + 1) ?? -1));
      let x = down ? (next.get(k + 1) ?? 0) : (next.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkedBack(a, b, trace);
    }
    reach = next;
  }
  return [];
}

function walkedBack(a: readonly string[], b: readonly string[], trace: readonly Map<number, number>[]): Match {
  const found: [number, number][] = [];
  let [x, y] = [a.length, b.length];
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const reach = trace[changes] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -changes || (k !== changes && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = changes === 0 ? 0 : (reach.get(fromK) ?? 0);
    const fromY = changes === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) found.push([--x, --y]);
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

/** A line without the spaces within it; those before it count. */
const bare = (line: string): string => `${/^ */.exec(line)?.[0] ?? ""}${line.replace(/\s+/g, "")}`;

interface Block {
  /** First line and the one past the last, in what was typed and in what is printed of it. */
  readonly typed: readonly [number, number];
  readonly printed: readonly [number, number];
}

/** Lines that are equal one by one, and between them what is printed otherwise than it was typed. */
function blocks(typed: readonly string[], printed: readonly string[]): Block[] {
  const out: Block[] = [];
  let [i, j] = [0, 0];
  for (const [a, b] of [...matched(typed.map(bare), printed.map(bare)), [typed.length, printed.length] as const]) {
    if (a > i || b > j) out.push({ typed: [i, a], printed: [j, b] });
    if (a < typed.length) out.push({ typed: [a, a + 1], printed: [b, b + 1] });
    [i, j] = [a + 1, b + 1];
  }
  return out;
}

/**
 * `typed`: a file as a hand wrote it. `before` and `after`: what a printer makes of it without and with a change. The
 * result is `after`, but lines that did not change are those of `typed`.
 */
export function keptLines(typed: string, before: string, after: string): string {
  const [a, b, c] = [typed, before, after].map((text) => text.split("\n")) as [string[], string[], string[]];
  const inC = new Map(matched(b, c));
  /** Where a block starts in the result; null where it changed. */
  const placeOf = ({ printed: [from, to] }: Block): number | null => {
    const first = inC.get(from);
    if (first === undefined || from === to) return null;
    for (let j = from; j < to; j++) if (inC.get(j) !== first + j - from) return null;
    return first;
  };
  const all = blocks(a, b);
  const out: string[] = [];
  let k = 0;
  let whole = true;
  all.forEach((block, index) => {
    const size = block.printed[1] - block.printed[0];
    const place = placeOf(block);
    const next = all[index + 1];
    const stays = size > 0 ? place !== null : whole && (next === undefined ? k === c.length : placeOf(next) === k);
    if (size === 0 && stays) out.push(...a.slice(...block.typed));
    if (size > 0 && place !== null) {
      out.push(...c.slice(k, place), ...a.slice(...block.typed));
      k = place + size;
    }
    whole = stays;
  });
  out.push(...c.slice(k));
  return out.join("\n");
}
