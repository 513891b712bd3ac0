/** Which log of an attempt is shown first, and how the others are marked. */
import type { Attempt, LogStream } from "../api/client";

export const STREAMS: readonly LogStream[] = ["both", "stdout", "stderr", "platform"];
export const streamText: Record<LogStream, string> = { both: "All output", stdout: "stdout", stderr: "stderr", platform: "Headway's log" };

/** Bytes of each; null: not known. */
export type Sizes = { readonly [stream in LogStream]: number | null };

/** With both streams as one. */
export const sizesOf = (of: Omit<Sizes, "both">): Sizes => ({ ...of, both: of.stdout === null || of.stderr === null ? null : of.stdout + of.stderr });

const failed = (attempt: Pick<Attempt, "state" | "ended_at"> | undefined): boolean => attempt !== undefined && attempt.ended_at !== null && attempt.state !== "SUCCEEDED";

/**
 * The log that holds the end: of what failed, where programs say why; else all that the program prints.
 *
 * Programs of Python and of most other languages tell why they failed on stderr. What they print comes out in blocks, so
 * that its last block follows the traceback.
 */
export function firstStream(attempt: Pick<Attempt, "state" | "ended_at"> | undefined, sizes: Sizes): LogStream {
  const has = (stream: LogStream): boolean => (sizes[stream] ?? 0) > 0;
  if (failed(attempt)) {
    if (has("stderr")) return "stderr";
    // Without a word of the program it never began, or was ended from outside: Headway's log tells that.
    return sizes.both === 0 && has("platform") ? "platform" : "both";
  }
  return "both";
}

/** The choice in an address: ?log=stderr&attempt=2. */
export function chosenIn(search: string): { stream: LogStream | null; attempt: number | null } {
  const given = new URLSearchParams(search);
  const attempt = Number(given.get("attempt"));
  return {
    stream: STREAMS.find((stream) => stream === given.get("log")) ?? null,
    attempt: Number.isInteger(attempt) && attempt > 0 ? attempt : null,
  };
}

/** The address of a task with a choice; what is not chosen is left out. `search`: of where it is chosen; filters stay. */
export function taskAddress(job: string, task: string, choice: { stream: LogStream | null; attempt?: number | null }, search = ""): string {
  const query = new URLSearchParams(search);
  for (const own of ["log", "attempt"]) query.delete(own);
  if (choice.stream !== null) query.set("log", choice.stream);
  if (choice.attempt != null) query.set("attempt", String(choice.attempt));
  const asked = query.toString();
  return `/jobs/${encodeURIComponent(job)}/${encodeURIComponent(task)}${asked && `?${asked}`}`;
}
