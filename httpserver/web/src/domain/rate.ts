/** How fast something goes, over the last seconds. */

const WINDOW_S = 5;

export class Rate {
  private readonly points: { at: number; bytes: number }[] = [];

  /** `bytes` in all have gone at `at` (seconds). */
  note(bytes: number, at: number): void {
    const last = this.points.at(-1);
    // Going back is another start: a server that was killed may know less than was sent.
    if (last !== undefined && bytes < last.bytes) this.points.length = 0;
    this.points.push({ at, bytes });
    while (this.points.length > 2 && (this.points[0]?.at ?? at) < at - WINDOW_S) this.points.shift();
  }

  forget(): void {
    this.points.length = 0;
  }

  /** Bytes a second; null while there is too little to say. */
  get perSecond(): number | null {
    const first = this.points[0];
    const last = this.points.at(-1);
    if (first === undefined || last === undefined || last.at - first.at < 0.2) return null;
    return (last.bytes - first.bytes) / (last.at - first.at);
  }
}

/** Seconds that the rest will take; null if it can't be told. */
export function remaining(sent: number, total: number, perSecond: number | null): number | null {
  return perSecond === null || perSecond <= 0 ? null : (total - sent) / perSecond;
}
