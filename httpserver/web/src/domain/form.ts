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

/** Renames a task in every need that names it. */
export function renameTask(job: JobForm, key: string, name: string): JobForm {
  const before = job.tasks.find((t) => t.key === key)?.name;
  const tasks = job.tasks.map((task) => {
    if (task.key === key) return edited(task, { name });
    if (before === undefined || before === "" || !task.needs.some((n) => n.task === before)) return task;
    return { ...task, needs: task.needs.map((n) => (n.task === before ? { ...n, task: name } : n)) };
  });
  return { ...job, tasks };
}

/** Removes a task and every need that names it. */
export function removeTask(job: JobForm, key: string): JobForm {
  const gone = job.tasks.find((t) => t.key === key)?.name;
  const tasks = job.tasks
    .filter((t) => t.key !== key)
    .map((t) => (t.needs.some((n) => n.task === gone) ? { ...t, needs: t.needs.filter((n) => n.task !== gone) } : t));
  return { ...job, tasks };
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
