// Written by scripts/render_states from headway/states.py and headway/model/tones.py: never edit.

export type Tone = "good" | "bad" | "live" | "wait" | "muted";

export const JOB_TONES = {
  PENDING: "wait",
  RUNNING: "live",
  STOPPING: "wait",
  SUCCEEDED: "good",
  FAILED: "bad",
  CANCELLED: "muted",
} as const;

export const TASK_TONES = {
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
} as const;

export const ATTEMPT_TONES = {
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
} as const;

export const HEALTH_TONES = {
  READY: "good",
  SUSPECT: "wait",
  DOWN: "bad",
} as const;

export const ADMISSION_TONES = {
  OPEN: "good",
  CORDONED: "wait",
  DRAINING: "wait",
  DRAINED: "muted",
} as const;

export const JOBS_ENDED = ["SUCCEEDED", "FAILED", "CANCELLED"] as const;

export const TASKS_ENDED = ["SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED", "SKIPPED"] as const;

export const ATTEMPTS_ENDED = ["SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED", "LOST"] as const;
