/** Drafts of pages that kept a form and a text side by side. The one in sight is the draft now; the other is put aside. */
import { parse } from "yaml";

import { INPUTS } from "../api/generated/task-fields";
import type { CodeField } from "./draft";
import { type JobForm, type TaskForm, emptyTask } from "./form";
import { textOf } from "./write-form";

type Loose = { readonly [key: string]: unknown };

const isObject = (value: unknown): value is Loose => typeof value === "object" && value !== null && !Array.isArray(value);
const objects = (value: unknown): Loose[] => (Array.isArray(value) ? value.filter(isObject) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const NEEDS = ["success", "failure", "any"] as const;

interface Old {
  readonly text: string;
  readonly asText: boolean;
  readonly aside: string;
  readonly code: CodeField | null;
  readonly requestId: string;
}

/** Null where it is no such draft. */
export function fromOldDraft(json: string): Old | null {
  let found: unknown;
  try {
    found = JSON.parse(json);
  } catch {
    return null;
  }
  if (!isObject(found) || !isObject(found["form"]) || !Array.isArray(found["form"]["tasks"])) return null;
  if (typeof found["yaml"] !== "string" || typeof found["requestId"] !== "string") return null;
  const { form, yaml, tab, requestId } = found as { form: Loose; yaml: string; tab: unknown; requestId: string };
  const asFile = textOf(jobOf(form));
  const asText = tab === "yaml";
  const [seen, other] = asText ? [yaml, isTouched(form) ? asFile : ""] : [asFile, yaml];
  const code = isObject(form["code"]) && typeof form["code"]["digest"] === "string" ? (form["code"] as unknown as CodeField) : null;
  return { text: seen, asText, aside: sameMeaning(seen, other) ? "" : other, code, requestId };
}

const isTouched = (form: Loose): boolean => form["name"] !== "my job" || objects(form["tasks"]).some((task) => text(task["command"]) !== "");

function sameMeaning(a: string, b: string): boolean {
  try {
    return JSON.stringify(parse(a)) === JSON.stringify(parse(b));
  } catch {
    return false;
  }
}

function jobOf(form: Loose): JobForm {
  const digest = isObject(form["code"]) ? text(form["code"]["digest"]) : "";
  return {
    name: text(form["name"]),
    priority: text(form["priority"]),
    loose: [],
    fixed: [],
    defaults: digest === "" ? null : { ...taskOf({}, -1), code: digest },
    tasks: objects(form["tasks"]).map(taskOf),
  };
}

function taskOf(old: Loose, index: number): TaskForm {
  const plain = emptyTask(`old-${index}`, "");
  // What a task has anyway was no word of the file. The first of these pages called the working folder otherwise.
  const inputs = INPUTS.map(({ key, otherwise, start }) => {
    const typed = text(old[key] ?? (key === "working_dir" ? old["workingDir"] : undefined));
    return [key, start === "" && typed === otherwise ? "" : typed] as const;
  });
  return {
    ...plain,
    ...(Object.fromEntries(inputs) as Partial<TaskForm>),
    name: text(old["name"]),
    image: text(old["image"]),
    mode: old["mode"] === "argv" ? "argv" : "script",
    command: text(old["command"]),
    env: objects(old["env"]).map((pair) => ({ name: text(pair["name"]), value: text(pair["value"]) })),
    needs: objects(old["needs"]).map((need) => ({ task: text(need["task"]), on: NEEDS.find((word) => word === need["on"]) ?? "success" })),
    secrets: [],
    datasets: Array.isArray(old["datasets"]) ? old["datasets"].filter((one) => typeof one === "string") : [],
  };
}
