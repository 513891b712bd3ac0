/** What orders the queue, in words. */
import { span } from "./format";

/** Those that come with Headway; an installed package may bring more. */
export const policies: readonly { readonly name: string; readonly does: string }[] = [
  { name: "aging_sjf", does: "Short timeouts go first. Waiting moves every task forward, so long tasks get their turn, too." },
  { name: "log_aging", does: "Short timeouts go first, and waiting moves every task forward. A ten times longer timeout costs a fixed wait: 12 mean timeouts of the last 2,000 tasks, unless set." },
  { name: "adaptive", does: "Short timeouts go first, and count more while the queue is long. Waiting moves every task forward." },
  { name: "fair", does: "Short timeouts go first, and count more while the queue is long. Many tasks of one person age one after the other, not all at once." },
  { name: "hrrn", does: "The task that has waited longest compared with its timeout goes first." },
  { name: "fifo", does: "First come, first served." },
  { name: "sjf", does: "The shortest timeout goes first. Waiting does not count, so long tasks may wait for ever." },
  { name: "ljf", does: "The longest timeout goes first. Waiting does not count." },
];

export const disciplines: readonly { readonly name: string; readonly does: string }[] = [
  { name: "conservative", does: "A task may start before its turn if that delays no task ahead of it. Starts are promised." },
  { name: "easy", does: "A task may start before its turn if that does not delay the first task. The first task's start is promised." },
  { name: "greedy", does: "Every task starts as soon as a machine has room for it, so large tasks may wait long. Nothing is promised." },
  { name: "strict", does: "Tasks start only in their order, even while machines are idle. Nothing is promised." },
];

/** A policy without its parameters. */
export const bare = (policy: string): string => policy.split(":")[0] ?? policy;

export const policyDoes = (policy: string): string => policies.find((p) => p.name === bare(policy))?.does ?? "";
export const disciplineDoes = (name: string): string => disciplines.find((d) => d.name === name)?.does ?? "";

const RESORTING: ReadonlySet<string> = new Set(["adaptive", "fair", "hrrn"]);

/** Whether starts can be promised under both; a policy of another package may say no all the same. */
export const promises = (policy: string, discipline: string, rule = "settled"): boolean =>
  (rule === "late" && discipline === "conservative") ||
  ((discipline === "conservative" || discipline === "easy") && !RESORTING.has(bare(policy)));

export interface Term {
  readonly name: string;
  readonly value: string;
}

const PRIORITY = ["low", "normal", "high"] as const;

const known: { readonly [term: string]: readonly [string, (value: number) => string] } = {
  waited_s: ["has waited", span],
  timeout_s: ["score for its timeout", signed],
  log_timeout_s: ["score for its timeout", signed],
  response_ratio: ["waiting time compared with its timeout", (ratio) => `${Number(ratio.toFixed(2))} times`],
  c: ["a ten times longer timeout costs", span],
  spread_s: ["score for other tasks of the same account", signed],
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
      { name: gamma === 1 ? "score for waiting" : `score for waiting ${span(waited)}`, value: signed(aged) },
      { name: "score for its timeout", value: signed(beta_t) },
      { name: "total score (the highest starts first)", value: signed(aged + beta_t) },
    );
    rest = others;
  }
  for (const [name, value] of Object.entries(rest)) {
    const [label, say] = (Object.hasOwn(known, name) ? known[name] : undefined) ?? [name.replaceAll("_", " "), plain];
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
