/** The submit form: what its fields hold. Which file that is, says domain/jobfile.ts. */
import type { NeedOn } from "../api/client";
import { INPUTS, type TaskInput } from "../api/generated/task-fields";

/** What a plain input of a task is for; which there are, the server's table says. */
export type InputKey = (typeof INPUTS)[number]["key"];

/** So many tasks have a form of their own. A file may have more: as a file. */
export const MOST_TASKS = 100;

/** Something with a place in the file that it was read from; without one it is new. */
interface Placed {
  /** Its index there. */
  readonly at?: number;
}

export interface NeedRow extends Placed {
  readonly task: string;
  readonly on: NeedOn;
  /** The task that it means, whatever that is called on the way to another name. Empty: nobody, until that name is typed. */
  readonly key?: string;
}

/** A variable, or a limit of processes. */
export interface PairRow extends Placed {
  readonly name: string;
  readonly value: string;
  /** Why the form can't show its value, which then stays in the file as it is. */
  readonly fixed?: string;
  /** The file writes it as something else than a text; one that is edited is no longer so. */
  readonly loose?: true;
}

/** A task, or what all tasks share. An empty text is nothing in the file: what is shared holds, or else the default. */
export interface TaskForm extends Readonly<Record<InputKey, string>>, Placed {
  /** Stays when the name is edited, so that a list of tasks keeps its focus. */
  readonly key: string;
  readonly name: string;
  readonly image: string;
  readonly mode: "script" | "argv";
  readonly command: string;
  readonly env: readonly PairRow[];
  readonly ulimits: readonly PairRow[];
  readonly needs: readonly NeedRow[];
  /** NAME, or NAME@VERSION. */
  readonly datasets: readonly string[];
  /** Names of those that are variables of their own names; others stay in the file. */
  readonly secrets: readonly string[];
  /** Comments stand in it in the file: they go with it. */
  readonly comments?: true;
  /** Fields that the file writes as something else, such as a number for a text; one that is edited is no longer here. */
  readonly loose: readonly string[];
  /** Fields with what the form can't show, and why; they stay in the file as they are. */
  readonly fixed: readonly { readonly field: string; readonly why: string }[];
}

export interface JobForm {
  readonly name: string;
  readonly priority: string;
  readonly loose: readonly string[];
  readonly fixed: readonly { readonly field: string; readonly why: string }[];
  /** What all tasks share; null where the file has none. */
  readonly defaults: TaskForm | null;
  readonly tasks: readonly TaskForm[];
}

/** What stands for an input in messages, and in `loose` and `fixed`. */
export const fieldOf = (input: Pick<TaskInput, "key" | "under">): string => (input.under ? `${input.under}/${input.key}` : input.key);

function plainTask(key: string, textOf: (input: TaskInput) => string): TaskForm {
  return {
    key,
    name: "",
    image: "",
    mode: "script",
    command: "",
    ...(Object.fromEntries(INPUTS.map((input) => [input.key, textOf(input)])) as Record<InputKey, string>),
    env: [],
    ulimits: [],
    needs: [],
    datasets: [],
    secrets: [],
    loose: [],
    fixed: [],
  };
}

/** One of which the file says nothing. */
export const blankTask = (key: string): TaskForm => plainTask(key, () => "");

/** A new one, with what the form starts with. */
export const emptyTask = (key: string, name: string, image = ""): TaskForm => ({ ...plainTask(key, (input) => input.start), name, image });

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** Numbers as numbers; anything else as it was typed, so that the server can say what is wrong with it. */
export function numberOrText(text: string): Json {
  const trimmed = text.trim();
  return /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : trimmed;
}

/** With what is typed into a field; what was typed is a text, or a number where one belongs. */
export function edited(task: TaskForm, part: Partial<TaskForm>): TaskForm {
  const touched = new Set<string>(Object.keys(part));
  const inputs = INPUTS.filter((input) => touched.has(input.key)).map(fieldOf);
  const fields = new Set([...touched, ...inputs]);
  return { ...task, ...part, loose: task.loose.filter((field) => !fields.has(field)) };
}

/** Rows with one of them changed: what was typed is a text. */
export const withRow = (rows: readonly PairRow[], index: number, part: { readonly name?: string; readonly value?: string }): readonly PairRow[] =>
  rows.map(({ loose, ...row }, i) => (i === index ? { ...row, ...part } : loose ? { ...row, loose } : row));

/** With the needs that mean no task yet, each as it is said by what is called so: a task, or null. */
function meaning(job: JobForm, said: (need: NeedRow, key: string | null) => NeedRow): JobForm {
  const keys = new Map<string, string | null>();
  for (const { name, key } of job.tasks) keys.set(name, keys.has(name) ? null : key);
  let changed = false;
  const tasks = job.tasks.map((task) => {
    if (task.needs.every((need) => need.key)) return task;
    const needs = task.needs.map((need) => (need.key ? need : said(need, keys.get(need.task) ?? null)));
    if (needs.every((need, i) => need === task.needs[i])) return task;
    changed = true;
    return { ...task, needs };
  });
  return changed ? { ...job, tasks } : job;
}

/** With each need bound to its task, where exactly one is called so. What is bound stays with its task, however that is called. */
export const bound = (job: JobForm): JobForm => meaning(job, (need, key) => (key === null ? need : { ...need, key }));

/** The same while a name is typed: who means nobody now does not come to mean a name on the way. */
const held = (job: JobForm): JobForm =>
  meaning(job, (need, key) => (need.key === undefined ? { ...need, key: key ?? "" } : need));

/** Whether a need is one of a task that is called so. `shared`: another is called so, too. */
const means = (need: NeedRow, task: TaskForm, shared: boolean): boolean => (need.key ? need.key === task.key : need.task === task.name && !shared);

/** Renames a task in every need that means it. Those of another task with the same name stay as they are. */
export function renameTask(job: JobForm, key: string, name: string): JobForm {
  const whole = held(job);
  const tasks = whole.tasks.map((task) => {
    const followed = task.needs.some((need) => need.key === key) ? { ...task, needs: task.needs.map((need) => (need.key === key ? { ...need, task: name } : need)) } : task;
    return task.key === key ? edited(followed, { name }) : followed;
  });
  return { ...whole, tasks };
}

/** Removes a task and every need that means it. */
export function removeTask(job: JobForm, key: string): JobForm {
  const gone = job.tasks.find((task) => task.key === key);
  if (gone === undefined) return job;
  const left = job.tasks.filter((task) => task.key !== key);
  const shared = left.some((task) => task.name === gone.name);
  const goes = (need: NeedRow): boolean => means(need, gone, shared);
  const tasks = left.map((task) => (task.needs.some(goes) ? { ...task, needs: task.needs.filter((need) => !goes(need)) } : task));
  return bound({ ...job, tasks });
}

/** Where a task of a form of before belongs among the tasks of now: behind the nearest of those that stood above it. */
export function placeOf(job: JobForm, before: JobForm, key: string): number {
  const left = new Set(job.tasks.map((task) => task.key));
  const index = before.tasks.findIndex((task) => task.key === key);
  const above = before.tasks.slice(0, index).findLast((task) => left.has(task.key))?.key;
  return job.tasks.findIndex((task) => task.key === above) + 1;
}

/** A removed task back at its place, with what needed it. What was changed since stays. `before`: the form that it was removed from. */
export function restoreTask(job: JobForm, before: JobForm, key: string): JobForm {
  const gone = before.tasks.find((task) => task.key === key);
  if (gone === undefined || job.tasks.some((task) => task.key === key)) return job;
  const place = placeOf(job, before, key);
  const shared = before.tasks.some((task) => task.key !== key && task.name === gone.name);
  const needing = job.tasks.map((task) => {
    const old = before.tasks.find((one) => one.key === task.key)?.needs ?? [];
    const needs = [...task.needs];
    old.forEach((need, at) => {
      if (means(need, gone, shared) && !needs.some((one) => means(one, gone, shared))) needs.splice(at, 0, need);
    });
    return needs.length === task.needs.length ? task : { ...task, needs };
  });
  const called = new Map(job.tasks.map((task) => [task.key, task.name]));
  const needs = gone.needs.filter((need) => !need.key || called.has(need.key)).map((need) => ({ ...need, task: called.get(need.key ?? "") ?? need.task }));
  return { ...job, tasks: [...needing.slice(0, place), { ...gone, needs }, ...needing.slice(place)] };
}

/** A new task behind the last one, which it needs. */
export function addTask(job: JobForm, key: string): JobForm {
  const last = job.tasks.at(-1);
  const taken = new Set(job.tasks.flatMap((task) => [task.name, ...task.needs.map((need) => need.task)]));
  let number = job.tasks.length + 1;
  while (taken.has(`task-${number}`)) number++;
  const needs: NeedRow[] = last === undefined ? [] : [{ task: last.name, on: "success", key: last.key }];
  return { ...job, tasks: [...job.tasks, { ...emptyTask(key, `task-${number}`, last?.image), needs }] };
}

/** Words of a command line given one a line. */
export const argv = (text: string): string[] => text.split("\n").filter((line) => line !== "");

/** What holds for a task: its own, else what all tasks share. */
export function holding(task: TaskForm, defaults: TaskForm | null): TaskForm {
  if (defaults === null) return task;
  const inherited = Object.fromEntries(INPUTS.map(({ key }) => [key, task[key] || defaults[key]])) as Record<InputKey, string>;
  const command = task.command === "" ? { mode: defaults.mode, command: defaults.command } : {};
  return { ...task, ...inherited, image: task.image || defaults.image, ...command };
}

/** What an input shows while it is empty: what then holds. */
export function told(input: TaskInput, defaults: TaskForm | null): string {
  const shared = defaults?.[input.key as InputKey] ?? "";
  if (shared === "") return input.placeholder || input.otherwise;
  return input.width === null ? `${shared} (of all tasks)` : shared;
}
