/** One exhaustive record per kind of state: a new state does not compile until the page knows it. */
import type { Admission, AttemptState, JobState, NodeHealth, Task, TaskState } from "../api/client";

export type Tone = "good" | "bad" | "live" | "wait" | "muted";

export const jobTone: Record<JobState, Tone> = {
  PENDING: "wait",
  RUNNING: "live",
  STOPPING: "wait",
  SUCCEEDED: "good",
  FAILED: "bad",
  CANCELLED: "muted",
};

export const taskTone: Record<TaskState, Tone> = {
  BLOCKED: "muted",
  QUEUED: "wait",
  RUNNING: "live",
  STOPPING: "wait",
  SUCCEEDED: "good",
  FAILED: "bad",
  TIMED_OUT: "bad",
  OUT_OF_MEMORY: "bad",
  CANCELLED: "muted",
  SKIPPED: "muted",
};

export const attemptTone: Record<AttemptState, Tone> = {
  PLACED: "wait",
  PULLING: "live",
  STARTING: "live",
  RUNNING: "live",
  STOPPING: "wait",
  SUCCEEDED: "good",
  FAILED: "bad",
  TIMED_OUT: "bad",
  OUT_OF_MEMORY: "bad",
  CANCELLED: "muted",
  LOST: "bad",
};

export const healthTone: Record<NodeHealth, Tone> = { READY: "good", SUSPECT: "wait", DOWN: "bad" };

export const admissionTone: Record<Admission, Tone> = {
  OPEN: "good",
  CORDONED: "wait",
  DRAINING: "wait",
  DRAINED: "muted",
};

const endedJobs: ReadonlySet<JobState> = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);
const endedTasks: ReadonlySet<TaskState> = new Set(["SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED", "SKIPPED"]);
const endedAttempts: ReadonlySet<AttemptState> = new Set(["SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED", "LOST"]);

export const jobEnded = (state: JobState): boolean => endedJobs.has(state);
export const taskEnded = (state: TaskState): boolean => endedTasks.has(state);
export const attemptEnded = (state: AttemptState): boolean => endedAttempts.has(state);

/** When its program started; a running task's own field may still be empty, its attempt knows. */
export function startedAt(task: Pick<Task, "state" | "started_at" | "attempts">): number | null {
  if (task.started_at !== null) return task.started_at;
  return task.state === "RUNNING" || task.state === "STOPPING" ? (task.attempts.at(-1)?.started_at ?? null) : null;
}

/** "OUT_OF_MEMORY" as people read it. */
export const label = (state: string): string => state.toLowerCase().replaceAll("_", " ");
