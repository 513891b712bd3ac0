/** When tasks start, as people plan: minutes rather than seconds, by the clock of the reader. */
import { span } from "./format";

const SOON_S = 120;
const DAY_MS = 86_400_000;

/**
 * A moment as people say it: 14:05, tomorrow 14:05, Mon, 30 Nov, 14:05. Seconds only where it is near. `up`: a promise is
 * never told earlier than it is.
 */
export function clock(at: number, now: number, { up = false }: { up?: boolean } = {}): string {
  const near = Math.abs(at - now) < SOON_S;
  const step = near ? 1 : 60;
  const date = new Date(1000 * step * (up ? Math.ceil(at / step) : Math.round(at / step)));
  const today = new Date(now * 1000);
  // In one piece, where there is little room: no line ends between 02:05 and PM.
  const time = date
    .toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(near ? { second: "2-digit" as const } : {}) })
    .replace(/\s/g, "\u00a0");
  if (date.toDateString() === today.toDateString()) return time;
  if (date.toDateString() === new Date(now * 1000 + DAY_MS).toDateString()) return `tomorrow ${time}`;
  const year = date.getFullYear() === today.getFullYear() ? {} : ({ year: "numeric" } as const);
  return `${date.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short", ...year })}, ${time}`;
}

/** The whole of it with its time zone, for who wants to be sure. */
export const inFull = (at: number): string => new Date(at * 1000).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });

/** How far off: in 40 s, in 12 m, in 2 h 5 m. */
export function away(at: number, now: number): string {
  const seconds = at - now;
  if (seconds < 1) return "any moment";
  const step = seconds < SOON_S ? 1 : 60;
  return `in ${span(step * Math.round(seconds / step))}`;
}

export function ordinal(n: number): string {
  const tens = n % 100;
  const ending = tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${ending}`;
}
