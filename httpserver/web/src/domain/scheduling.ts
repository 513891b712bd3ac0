/** What orders the queue, in words. */
import { span } from "./format";

/** Those that come with Headway; an installed package may bring more. */
export const policies: readonly { readonly name: string; readonly does: string }[] = [
  { name: "aging_sjf", does: "Short timeouts go first, and waiting moves every task forward, so long ones get their turn." },
  { name: "log_aging", does: "As aging_sjf, but ten times the timeout costs a fixed time of waiting." },
  { name: "adaptive", does: "As log_aging; the longer the queue, the more a short timeout is worth." },
  { name: "fair", does: "As adaptive, and one person's many tasks age as if they had come one after the other." },
  { name: "hrrn", does: "Those that have waited longest for what they ask go first." },
  { name: "fifo", does: "First come, first served." },
  { name: "sjf", does: "The shortest timeout goes first; nothing ages, so long ones may wait for ever." },
  { name: "ljf", does: "The longest timeout goes first; nothing ages." },
];

export const disciplines: readonly { readonly name: string; readonly does: string }[] = [
  { name: "conservative", does: "A task may start before those ahead of it if that delays none of them. Starts are promised." },
  { name: "easy", does: "A task may start before those ahead of it if that does not delay the first one. The first one's start is promised." },
  { name: "greedy", does: "Whatever fits starts, so large tasks may wait long. Nothing is promised." },
  { name: "strict", does: "Nobody overtakes, even where machines stand idle. Nothing is promised." },
];

/** A policy without its parameters. */
export const bare = (policy: string): string => policy.split(":")[0] ?? policy;

export const policyDoes = (policy: string): string => policies.find((p) => p.name === bare(policy))?.does ?? "";
export const disciplineDoes = (name: string): string => disciplines.find((d) => d.name === name)?.does ?? "";

const RESORTING: ReadonlySet<string> = new Set(["adaptive", "fair", "hrrn"]);

/** Whether starts can be promised under both; a policy of another package may say no all the same. */
export const promises = (policy: string, discipline: string): boolean =>
  (discipline === "conservative" || discipline === "easy") && !RESORTING.has(bare(policy));

export interface Term {
  readonly name: string;
  readonly value: string;
}

const PRIORITY = ["low", "normal", "high"] as const;

const known: { readonly [term: string]: readonly [string, (value: number) => string] } = {
  waited_s: ["has waited", span],
  timeout_s: ["its timeout counts", signed],
  log_timeout_s: ["its timeout counts", signed],
  response_ratio: ["waited, measured by its timeout", (ratio) => `${Number(ratio.toFixed(2))} times`],
  c: ["ten times the timeout costs", span],
  spread_s: ["other tasks of the same account count", signed],
};

/**
 * The parts of a waiting task's priority as the queue tells them, in words.
 *
 * `aging_sjf` counts from the epoch; what people can compare is the same sum counted from now.
 */
export function termsInWords(terms: { readonly [name: string]: number }, now: number): Term[] {
  const { priority = 0, alpha_p, beta_t, gamma_t, waited_s: waited, ...others } = terms;
  const found: Term[] = [{ name: "priority", value: PRIORITY[priority + 1] ?? String(priority) }];
  let rest: { readonly [name: string]: number } = waited === undefined ? others : { waited_s: waited, ...others };
  if (beta_t !== undefined && gamma_t !== undefined && waited !== undefined) {
    const gamma = Number((-gamma_t / Math.max(1, now - waited)).toFixed(3));
    const aged = gamma * waited;
    found.push(
      { name: gamma === 1 ? "has waited" : `has waited ${span(waited)}, counts`, value: signed(aged) },
      { name: "its timeout counts", value: signed(beta_t) },
      { name: "together (the highest goes first)", value: signed(aged + beta_t) },
    );
    rest = others;
  }
  for (const [name, value] of Object.entries(rest)) {
    const [label, say] = known[name] ?? [name.replaceAll("_", " "), plain];
    found.push({ name: label, value: say(value) });
  }
  return found;
}

/** Seconds with their sign. */
function signed(seconds: number): string {
  const whole = Math.round(seconds);
  return `${whole < 0 ? "−" : "+"}${span(Math.abs(whole) < 1 ? 0 : Math.abs(whole))}`.replace("0 ms", "0 s");
}

function plain(value: number): string {
  return String(Number(value.toPrecision(6)));
}
