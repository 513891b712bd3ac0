/** One exhaustive record per kind of state: a new state does not compile until the page knows it. */
import type { Admission, AttemptState, JobState, NodeHealth, Task, TaskState } from "../api/client";
import {
  ADMISSION_TONES,
  ATTEMPTS_ENDED,
  ATTEMPT_TONES,
  HEALTH_TONES,
  JOBS_ENDED,
  JOB_TONES,
  TASKS_ENDED,
  TASK_TONES,
  type Tone,
} from "../api/generated/states";

export type { Tone };

export const jobTone: Record<JobState, Tone> = JOB_TONES;
export const taskTone: Record<TaskState, Tone> = TASK_TONES;
export const attemptTone: Record<AttemptState, Tone> = ATTEMPT_TONES;
export const healthTone: Record<NodeHealth, Tone> = HEALTH_TONES;
export const admissionTone: Record<Admission, Tone> = ADMISSION_TONES;

const endedJobs: ReadonlySet<JobState> = new Set(JOBS_ENDED);
const endedTasks: ReadonlySet<TaskState> = new Set(TASKS_ENDED);
const endedAttempts: ReadonlySet<AttemptState> = new Set(ATTEMPTS_ENDED);

export const jobEnded = (state: JobState): boolean => endedJobs.has(state);
export const taskEnded = (state: TaskState): boolean => endedTasks.has(state);
export const attemptEnded = (state: AttemptState): boolean => endedAttempts.has(state);

/** When its program started; a running task's own field may still be empty, its attempt knows. */
export function startedAt(task: Pick<Task, "state" | "started_at" | "attempts">): number | null {
  if (task.started_at !== null) return task.started_at;
  return task.state === "RUNNING" || task.state === "STOPPING" ? (task.attempts.at(-1)?.started_at ?? null) : null;
}

/** Whether a machine takes new tasks, as people read it. */
export const admissionText: Record<Admission, string> = {
  OPEN: "open",
  CORDONED: "closed for new tasks",
  DRAINING: "closed, its last tasks run",
  DRAINED: "closed and empty",
};

/** "OUT_OF_MEMORY" as people read it. */
export const label = (state: string): string => state.toLowerCase().replaceAll("_", " ");
