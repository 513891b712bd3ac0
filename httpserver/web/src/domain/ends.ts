/** How a process ended, as facts beside the sentence. */
import type { Reason } from "../api/client";

// By Linux, on every machine that runs tasks.
const SIGNALS: { readonly [number: number]: string } = {
  1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
  10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
};

/** "exit code 1", "signal 9 (SIGKILL)", or nothing. */
export function endFacts(reason: Pick<Reason, "exit_code" | "signal"> | null): string {
  if (reason === null) return "";
  const { exit_code: code, signal } = reason;
  const facts = [];
  if (code !== null) facts.push(`exit code ${code}`);
  if (signal !== null) facts.push(`signal ${signal}${SIGNALS[signal] ? ` (${SIGNALS[signal]})` : ""}`);
  return facts.join(", ");
}
