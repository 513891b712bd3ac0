/** Timeouts and numbers of GPUs to compare with those of a task. */
import type { PreviewStart } from "../api/client";
import { seconds } from "./duration";
import { type Json, type TaskForm, numberOrText } from "./form";

const TIMEOUTS = ["10m", "1h", "1d"] as const;
const FEW_GPUS = [1, 2] as const;

interface Grid {
  readonly timeouts: readonly string[];
  readonly gpus: readonly number[];
  /** The task's own timeout, as it was typed. */
  readonly own: string;
}

export interface Comparison extends Grid {
  /** What is asked of the server, row by row. */
  readonly asked: readonly { readonly [field: string]: Json }[];
}

export interface Compared extends Grid {
  /** What it answered, in the same order. */
  readonly starts: readonly PreviewStart[];
}

/**
 * A task's own timeout and GPUs among usual ones, in order; null where its own can't be read yet. `task`: with what it
 * has of all tasks.
 */
export function comparison(task: TaskForm, priority: string): Comparison | null {
  const own = task.timeout.trim();
  const ownS = seconds(own);
  const count = numberOrText(task.gpus || "0");
  if (ownS === null || typeof count !== "number" || !Number.isInteger(count)) return null;
  const timeouts = [own, ...TIMEOUTS.filter((text) => seconds(text) !== ownS)].sort((a, b) => (seconds(a) ?? 0) - (seconds(b) ?? 0));
  const gpus = count === 0 ? [0] : [...new Set([...FEW_GPUS, count])].sort((a, b) => a - b);
  const models = task.gpu_model.split(",").map((model) => model.trim()).filter(Boolean);
  const ofGpus = count === 0 ? {} : { ...said("gpu_memory", task.gpu_memory), ...(models.length > 0 ? { gpu_model: models } : {}) };
  const shared = {
    ...(task.cpus === "" ? {} : { cpus: numberOrText(task.cpus) }),
    ...said("memory", task.memory),
    ...said("shm", task.shm),
    ...ofGpus,
    priority: priority || "normal",
  };
  return { timeouts, gpus, own, asked: timeouts.flatMap((timeout) => gpus.map((n) => ({ timeout, gpus: n, ...shared }))) };
}

const said = (key: string, text: string): { readonly [field: string]: Json } => (text.trim() === "" ? {} : { [key]: text.trim() });

/** What it was answered for the task as it is. */
export function ownStart({ timeouts, gpus, own, starts }: Compared, task: TaskForm): PreviewStart | undefined {
  const count = numberOrText(task.gpus || "0");
  return starts[timeouts.indexOf(own) * gpus.length + gpus.findIndex((one) => one === count)];
}

/** Whether so much is filled in that the server can say something. `task`: with what it has of all tasks. */
export const complete = (task: TaskForm): boolean =>
  [task.name, task.image, task.command, task.timeout].every((text) => text.trim() !== "");
