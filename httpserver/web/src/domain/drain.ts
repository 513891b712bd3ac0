import type { Node } from "../api/client";
import { moment, span } from "./format";

type Drain = NonNullable<Node["drain"]>;

/** The deadlines that the page offers, in seconds. The command line takes any. */
export const DEADLINES: readonly (readonly [string, number])[] = [
  ["10 minutes", 600],
  ["an hour", 3600],
  ["4 hours", 4 * 3600],
  ["a day", 86400],
];

/** How far the emptying of a machine is, in a sentence; `now` in epoch seconds. */
export function drainProgress(drain: Drain, admission: string, now: number): string {
  const left = drain.attempts_left;
  const first = Math.max(drain.attempts_at_start, left);
  const parts = [admission === "DRAINED" ? "It is empty" : `${left} of ${first} tasks left here`];
  if (left > 0 && drain.last_ends_by_at !== null) parts.push(`the last ends by ${moment(drain.last_ends_by_at, now)}`);
  if (left > 0 && drain.until_at !== null) {
    const ahead = drain.until_at - now;
    parts.push(ahead > 0 ? `what still runs in ${span(ahead)} is run elsewhere` : "what still runs is stopped now, and run elsewhere");
  }
  if (drain.return_when_back) parts.push("it opens once the machine was restarted");
  if (drain.return_at !== null) parts.push(`it opens at ${moment(drain.return_at, now)}`);
  return `${parts.join("; ")}. Asked for by ${drain.by || "an operator"}.`;
}
