/** The submit form: what is typed, and the job file that it says. */
import type { NeedOn } from "../api/client";
import { INPUTS, TASK_KEYS, type TaskInput } from "../api/generated/task-fields";

/** What a plain input of a task is for; which there are, the server's table says. */
export type InputKey = (typeof INPUTS)[number]["key"];

export interface NeedRow {
  readonly task: string;
  readonly on: NeedOn;
}

export interface TaskForm extends Readonly<Record<InputKey, string>> {
  /** Stays when the name is edited, so that a list of tasks keeps its focus. */
  readonly key: string;
  readonly name: string;
  readonly image: string;
  readonly mode: "script" | "argv";
  readonly command: string;
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly needs: readonly NeedRow[];
  /** NAME, or NAME@VERSION. */
  readonly datasets: readonly string[];
}

/** A snapshot of a folder that is there already. */
export interface CodeField {
  readonly digest: string;
  readonly folder: string;
  readonly files: number;
  readonly sizeBytes: number;
}

export interface JobForm {
  readonly name: string;
  readonly priority: "low" | "normal" | "high";
  /** Seen by all tasks at /root/code. */
  readonly code: CodeField | null;
  readonly tasks: readonly TaskForm[];
}

export function emptyTask(key: string, name: string, image = ""): TaskForm {
  return {
    key,
    name,
    image,
    mode: "script",
    command: "",
    ...(Object.fromEntries(INPUTS.map((input) => [input.key, input.start])) as Record<InputKey, string>),
    env: [],
    needs: [],
    datasets: [],
  };
}

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** Numbers as numbers; anything else as it was typed, so that the server can say what is wrong with it. */
export function numberOrText(text: string): Json {
  const trimmed = text.trim();
  return /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : trimmed;
}

/** Renames a task in every need that names it. */
export function renameTask(job: JobForm, key: string, name: string): JobForm {
  const before = job.tasks.find((t) => t.key === key)?.name;
  const tasks = job.tasks.map((task) => {
    if (task.key === key) return { ...task, name };
    if (before === undefined || before === "") return task;
    return { ...task, needs: task.needs.map((n) => (n.task === before ? { ...n, task: name } : n)) };
  });
  return { ...job, tasks };
}

/** Removes a task and every need that names it. */
export function removeTask(job: JobForm, key: string): JobForm {
  const gone = job.tasks.find((t) => t.key === key)?.name;
  const tasks = job.tasks.filter((t) => t.key !== key).map((t) => ({ ...t, needs: t.needs.filter((n) => n.task !== gone) }));
  return { ...job, tasks };
}

/** Words of a command line given one a line. */
export const argv = (text: string): string[] => text.split("\n").filter((line) => line !== "");

/** What is typed into plain inputs, as a job file says it: without what a new task has anyway. */
export function typed(task: { readonly [key: string]: unknown }, inputs: readonly TaskInput[] = INPUTS): { [key: string]: Json } {
  const out: { [key: string]: Json } = {};
  for (const input of inputs) {
    const read = (text: string): Json => (input.kind === "number" ? numberOrText(text) : input.exact ? text : text.trim());
    const value = read(String(task[input.key] ?? input.start));
    if (!input.always && value === read(input.start)) continue;
    if (input.under) out[input.under] = { ...(out[input.under] as { [key: string]: Json }), [input.key]: value };
    else out[input.key] = value;
  }
  return out;
}

export function toJobFile(form: JobForm): { [key: string]: Json } {
  return {
    version: 1,
    name: form.name,
    priority: form.priority,
    ...(form.code === null ? {} : { defaults: { code: form.code.digest } }),
    tasks: form.tasks.map((task) => {
      const out: { [key: string]: Json } = { ...typed({ ...task }), name: task.name };
      if (task.needs.length > 0) {
        out["needs"] = task.needs.every((n) => n.on === "success")
          ? task.needs.map((n) => n.task)
          : Object.fromEntries(task.needs.map((n) => [n.task, n.on]));
      }
      out["image"] = task.image;
      out["command"] = task.mode === "script" ? task.command : argv(task.command);
      if (task.env.length > 0) out["env"] = Object.fromEntries(task.env.map((e) => [e.name, e.value]));
      if (task.datasets.length > 0) out["datasets"] = [...task.datasets];
      return Object.fromEntries(TASK_KEYS.flatMap((key) => (out[key] === undefined ? [] : [[key, out[key]]])));
    }),
  };
}

/** Whether a problem's JSON pointer lies in the field at `pointer`. */
export const isAt = (problem: { readonly pointer: string }, pointer: string): boolean =>
  problem.pointer === pointer || problem.pointer.startsWith(`${pointer}/`);
