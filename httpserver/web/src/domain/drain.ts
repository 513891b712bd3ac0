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
export function drainProgress(emptying: Drain, admission: string, now: number): string {
  const left = emptying.attempts_left;
  const first = Math.max(emptying.attempts_at_start, left);
  const parts = [admission === "DRAINED" ? "It is empty" : `${left} of ${first} tasks left here`];
  if (left > 0 && emptying.last_ends_by_at !== null) parts.push(`the last ends by ${moment(emptying.last_ends_by_at, now)}`);
  if (left > 0 && emptying.until_at !== null) {
    const ahead = emptying.until_at - now;
    parts.push(ahead > 0 ? `what still runs in ${span(ahead)} is run elsewhere` : "what still runs is stopped now, and run elsewhere");
  }
  if (emptying.return_when_back) parts.push("it opens once the machine was restarted");
  if (emptying.return_at !== null) parts.push(`it opens at ${moment(emptying.return_at, now)}`);
  return `${parts.join("; ")}. Asked for by ${emptying.by || "an operator"}.`;
}
