/** When the lines came that are on the page, as far as it was asked for. */

/** As the server gives it: see LogTimes of the API. */
export interface TimesPart {
  readonly offsets: readonly number[];
  readonly at: readonly (number | null)[];
  readonly end: number;
}

/** More than this are not held: a window has ten thousand lines at most. */
const MOST_HELD = 40_000;

/** The times of one piece of a log without gap. It is never changed: more is another one. */
export class LineTimes {
  private constructor(
    readonly from: number,
    readonly to: number,
    private readonly offsets: readonly number[],
    private readonly at: readonly (number | null)[],
  ) {}

  static readonly none = new LineTimes(0, 0, [], []);

  /** What to ask for next, so that all of a window is known; null: nothing. */
  missing(begin: number, end: number): { from: number; to: number } | null {
    if (begin >= end) return null;
    if (this.from === this.to || end < this.from || begin > this.to) return { from: begin, to: end };
    if (begin < this.from) return { from: begin, to: this.from };
    return end > this.to ? { from: this.to, to: end } : null;
  }

  /** With an answer that began at `from`. */
  with(from: number, part: TimesPart): LineTimes {
    const to = Math.max(from, part.end);
    if (to === from) return this;
    if (this.from === this.to || this.offsets.length + part.offsets.length > MOST_HELD) return new LineTimes(from, to, part.offsets, part.at);
    if (from === this.to) return new LineTimes(this.from, to, [...this.offsets, ...part.offsets], [...this.at, ...part.at]);
    if (to === this.from) return new LineTimes(from, this.to, [...part.offsets, ...this.offsets], [...part.at, ...this.at]);
    return new LineTimes(from, to, part.offsets, part.at);
  }

  /** When this byte came, in seconds; null: not known. */
  of(byte: number): number | null {
    if (byte < this.from || byte >= this.to) return null;
    let low = 0;
    let high = this.offsets.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.offsets[middle] ?? 0) <= byte) low = middle + 1;
      else high = middle;
    }
    return this.at[low - 1] ?? null;
  }
}

const two = (value: number): string => String(value).padStart(2, "0");

/** 2026-11-29 18:24:22.123+01:00: the reader's own time and its zone, so that the hour that summer time repeats is no riddle. */
export function exact(at: number): string {
  const date = new Date(Math.round(at * 1000));
  const ahead = -date.getTimezoneOffset();
  const zone = `${ahead < 0 ? "-" : "+"}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}${zone}`;
}
