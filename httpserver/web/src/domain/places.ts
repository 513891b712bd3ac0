/** Where a message of the server belongs in the form. */
import type { ProblemItem } from "../api/client";
import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import { type JobForm, type TaskForm, fieldOf } from "./form";

export interface Places {
  /** Of the whole job: `name`, `priority`, `code`. Of a task: its key, a colon and the field; its key alone: the task as such. */
  readonly at: (place: string) => readonly ProblemItem[];
  /** Those that have no field: they are told above. */
  readonly rest: readonly ProblemItem[];
}

const none: readonly ProblemItem[] = [];
export const nowhere: Places = { at: () => none, rest: none };

/**
 * `checked`: the form as it was when the server was asked; messages stay with its tasks, wherever those go. `now`: as it
 * is; what was said of a field that was changed since is said no more.
 */
export function placed(problems: readonly ProblemItem[], checked: JobForm | null, now: JobForm | null = checked): Places {
  if (problems.length === 0) return nowhere;
  if (checked === null || now === null) return { at: () => none, rest: problems };
  const found = new Map<string, ProblemItem[]>();
  const rest: ProblemItem[] = [];
  for (const problem of problems) {
    const place = placeOf(problem, checked);
    if (place === null) rest.push(problem);
    else if (now === checked || contentAt(checked, place) === contentAt(now, place)) found.set(place, [...(found.get(place) ?? []), problem]);
  }
  return { at: (place) => found.get(place) ?? none, rest };
}

/** What stands at a place, to be compared. */
function contentAt(form: JobForm, place: string): string {
  if (place === "name" || place === "priority") return JSON.stringify([form[place], form.loose.includes(place)]);
  if (place === "code") return form.defaults?.code ?? "";
  const [key = "", field] = divided(place, ":");
  const task = key === "defaults" ? form.defaults : form.tasks.find((one) => one.key === key);
  if (!task) return "gone";
  if (field === undefined) return JSON.stringify(task);
  const [list = "", name] = divided(field, "/");
  if (list === "env" || list === "ulimits") return JSON.stringify(name === undefined ? task[list] : task[list].filter((row) => row.name === name));
  if (list === "needs") return JSON.stringify(name === undefined ? task.needs : task.needs.filter((need) => need.task === name));
  const input = list === "resources" ? (name ?? "") : list;
  return JSON.stringify([task[input as keyof TaskForm], task.loose.includes(field), input === "command" ? task.mode : ""]);
}

function divided(text: string, sign: string): [string, string | undefined] {
  const at = text.indexOf(sign);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

const steps = (pointer: string): string[] =>
  pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

/** What is not there has no place of its own: the message names it. */
const lacking = (message: string): string => / has no (\w+);/.exec(message)?.[1] ?? "";

export function placeOf({ pointer, message }: Pick<ProblemItem, "pointer" | "message">, form: JobForm): string | null {
  const [first, ...rest] = steps(pointer);
  if (first === undefined) return lacking(message) === "name" ? "name" : null;
  if ((first === "name" || first === "priority") && rest.length === 0) return first;
  if (first === "defaults") {
    if (rest[0] === "code") return "code";
    return form.defaults === null || rest.length === 0 ? null : inTask(rest, message, form.defaults);
  }
  const task = first === "tasks" && rest[0] !== undefined ? form.tasks[Number(rest[0])] : undefined;
  return task === undefined ? null : inTask(rest.slice(1), message, task);
}

function inTask(path: readonly string[], message: string, task: TaskForm): string {
  const [key = lacking(message), inner, ...deeper] = path;
  const field = (name: string): string => `${task.key}:${name}`;
  if (key === "name" || key === "image" || key === "command" || key === "datasets" || key === "secrets") return field(key);
  if (key === "needs") {
    const row = task.needs.find((need) => need.task === inner) ?? task.needs[Number(inner ?? "-1")];
    return field(row === undefined ? key : `needs/${row.task}`);
  }
  if (key === "env" || key === "ulimits") return field(task[key].some((row) => row.name === inner) ? `${key}/${inner ?? ""}` : key);
  const under = key === "resources" ? key : "";
  const name = under ? inner : key;
  const input = (INPUTS as readonly TaskInput[]).find((one) => one.under === under && one.key === name);
  return input === undefined || (!under && deeper.length > 0) ? task.key : field(fieldOf(input));
}
