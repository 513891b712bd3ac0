/** The lines of arrows. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** An SVG path through the points, level at each of them. */
export function path(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let out = `M${round(first.x)},${round(first.y)}`;
  let from = first;
  for (const to of rest) {
    const middle = round((from.x + to.x) / 2);
    out += ` C${middle},${round(from.y)} ${middle},${round(to.y)} ${round(to.x)},${round(to.y)}`;
    from = to;
  }
  return out;
}

/** An SVG path of straight pieces with round corners. */
export function corners(points: readonly Point[], radius = 8): string {
  const first = points[0];
  if (first === undefined) return "";
  let out = `M${round(first.x)},${round(first.y)}`;
  for (let i = 1; i < points.length; i++) {
    const [from, at, to] = [points[i - 1], points[i], points[i + 1]];
    if (from === undefined || at === undefined) break;
    if (to === undefined) {
      out += ` L${round(at.x)},${round(at.y)}`;
      break;
    }
    const near = (other: Point): Point => {
      const far = Math.hypot(other.x - at.x, other.y - at.y) || 1;
      const part = Math.min(radius, far / 2) / far;
      return { x: round(at.x + (other.x - at.x) * part), y: round(at.y + (other.y - at.y) * part) };
    };
    const [a, b] = [near(from), near(to)];
    out += ` L${a.x},${a.y} Q${round(at.x)},${round(at.y)} ${b.x},${b.y}`;
  }
  return out;
}
