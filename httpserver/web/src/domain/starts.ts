/** When tasks start, as people plan: minutes rather than seconds, by the clock of the reader. */
import { span } from "./format";
import { zone } from "./zone";

const SOON_S = 120;

/**
 * A moment as people say it: 14:05 UTC+1, tomorrow 14:05 UTC+1, Mon, 30 Nov, 14:05 UTC+1. Seconds only where it is near.
 * `up`: a promise is never told earlier than it is.
 */
export function clock(at: number, now: number, { up = false }: { up?: boolean } = {}): string {
  const near = Math.abs(at - now) < SOON_S;
  const step = near ? 1 : 60;
  return said(new Date(1000 * step * (up ? Math.ceil(at / step) : Math.round(at / step))), now, near);
}

/** The same to the second. */
export const exactly = (at: number, now: number): string => said(new Date(1000 * at), now, true);

function said(date: Date, now: number, seconds: boolean): string {
  const today = new Date(now * 1000);
  // In one piece, where there is little room: no line ends between 02:05 and PM.
  const time = date
    .toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" as const } : {}) })
    .replace(/\s/g, "\u00a0");
  const told = `${time} ${zone(date)}`;
  if (date.toDateString() === today.toDateString()) return told;
  // By the calendar: the day that summer time ends has 25 hours.
  const tomorrow = new Date(today.getFullYear(), today.getMonth(), today.getDate() + 1);
  if (date.toDateString() === tomorrow.toDateString()) return `tomorrow ${told}`;
  const year = date.getFullYear() === today.getFullYear() ? {} : ({ year: "numeric" } as const);
  return `${date.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short", ...year })}, ${told}`;
}

/** As programs write it; empty for a moment that no calendar has. */
export function iso(at: number): string {
  const date = new Date(at * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** The whole of it with its time zone, and in UTC, for who wants to be sure. */
export const inFull = (at: number): string =>
  `${new Date(at * 1000).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}, ${iso(at)}`;

/** How far off: in 40 s, in 12 m, in 2 h 5 m. */
export function away(at: number, now: number): string {
  const seconds = at - now;
  if (seconds < 1) return "any moment";
  const step = seconds < SOON_S ? 1 : 60;
  return `in ${span(step * Math.round(seconds / step))}`;
}

/** How long over: 40 s ago, 12 m ago. */
export function ago(at: number, now: number): string {
  const seconds = Math.max(0, now - at);
  const step = seconds < SOON_S ? 1 : 60;
  return `${span(step * Math.floor(seconds / step)).replace("0 ms", "0 s")} ago`;
}

export function ordinal(n: number): string {
  const tens = n % 100;
  const ending = tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${ending}`;
}
