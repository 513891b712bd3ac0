/** What is being written, kept for this tab: a reload, a sign-in or a wrong click loses nothing. */
import { INPUTS } from "../api/generated/task-fields";
import { type JobForm, type TaskForm, blankTask, bound, edited, emptyTask } from "./form";
import { freshId } from "./id";
import { fromOldDraft } from "./old-draft";
import { readForm } from "./read-form";
import type { Taken } from "./take";
import { carried, textOf } from "./write-form";

/** What is known of a snapshot that was made here. */
export interface CodeField {
  readonly digest: string;
  readonly folder: string;
  readonly files: number;
  readonly sizeBytes: number;
}

/** One file, seen as a form or as text. */
export interface Draft {
  /** The file; while the form is open, as it was when it was opened. */
  readonly text: string;
  /** The form of it, with what was changed there since; null: it is seen as text. */
  readonly form: JobForm | null;
  /** A mark of it as it was begun: nothing is lost if it is still that. */
  readonly origin: string;
  /** Another file that had to make room for this one; empty: none. */
  readonly aside: string;
  /** Those that were put aside before it, the last of them first. */
  readonly older?: readonly string[];
  readonly code: CodeField | null;
  /** The job whose file this began with: a reload keeps what was changed since. */
  readonly cloneOf?: string;
  /** Sent with the submit: the same content sent twice is one job. */
  readonly requestId: string;
}

const VERSION = 4;
const slot = (user: string, version: number = VERSION): string => `headway.draft.${version}.${user}`;
/** Pages of before: of them the newest that is there. */
const OLD = [3, 2] as const;

export interface Loaded {
  readonly draft: Draft;
  /** What of other pages was found and left alone; empty: nothing. */
  readonly told: string;
  /** The place where drafts are kept has something that this page can't read: nothing is written over it. */
  readonly blocked: boolean;
}

/** The file that would be submitted now. */
export const fileOf = (draft: Draft): string => (draft.form === null ? draft.text : carried(draft.text, draft.form));

export function untouched(draft: Draft): boolean {
  const file = fileOf(draft);
  return markOf(file) === draft.origin || file === draft.origin;
}

/** Stands for a file without keeping it a second time: its length and a sum of 53 bits. */
function markOf(text: string): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x9e3779b1);
    b = Math.imul(b ^ code, 0x5f356495);
  }
  return `${text.length}:${(((b >>> 0) & 0x1fffff) * 2 ** 32 + (a >>> 0)).toString(36)}`;
}

/** A draft of a file, as a form where it can have one. */
export function draftOf(text: string, { asText = false, aside = "" }: { asText?: boolean; aside?: string } = {}): Draft {
  return { text, form: asText ? null : readForm(text).form, origin: markOf(text), aside, code: null, requestId: freshId() };
}

/** Nothing was ever written into it, nor opened. */
export const isBlank = (draft: Draft): boolean => fileOf(draft) === newDraft().text;

/** So many drafts are put aside at most; the next one takes the place of the oldest. */
export const MOST_ASIDE = 5;

/** All that were put aside, the last one first. */
export const asideOf = (draft: Draft): readonly string[] => (draft.aside === "" ? [] : [draft.aside, ...(draft.older ?? [])]);

function withAside(draft: Draft, files: readonly string[]): Draft {
  const { older: _, ...rest } = draft;
  const [aside = "", ...older] = [...new Set(files)].filter((file) => file !== "").slice(0, MOST_ASIDE);
  return { ...rest, aside, ...(older.length === 0 ? {} : { older }) };
}

/** A file in the place of the draft, which is put aside if anything was written into it. */
export const replacing = (old: Draft, text: string): Draft =>
  withAside(draftOf(text, { asText: true }), untouched(old) ? asideOf(old) : [fileOf(old), ...asideOf(old)]);

/** One that was put aside, in the place of the draft, which goes aside for it. No other copy of it is left, so it counts as written. */
export function takenBack(old: Draft, index: number): Draft {
  const files = asideOf(old);
  const text = files[index];
  if (text === undefined) return old;
  return { ...withAside(draftOf(text, { asText: true }), [fileOf(old), ...files.filter((_, i) => i !== index)]), origin: "" };
}

export const withoutAside = (old: Draft, index: number): Draft => withAside(old, asideOf(old).filter((_, i) => i !== index));

export function newDraft(): Draft {
  const tasks = [emptyTask("new", "task-1", "base/python:1")];
  return draftOf(textOf({ name: "my job", priority: "normal", loose: [], fixed: [], defaults: null, tasks }));
}

export function loadDraft(user: string): Loaded {
  let told = "";
  try {
    if (Object.keys(sessionStorage).some((key) => newerOf(key, user))) {
      told = "A newer version of this page keeps a draft in this tab. It was not changed; reload the page to go on with it.";
    }
    const kept = sessionStorage.getItem(slot(user));
    if (kept !== null) {
      const draft = readDraft(kept);
      if (draft !== null) return { draft, told, blocked: false };
      return { draft: newDraft(), told: "A draft is kept in this tab that this version of the page can't read. It was not changed.", blocked: true };
    }
    const old = movedDraft(user);
    if (old === "unread") return { draft: newDraft(), told: "A draft of an older version of this page can't be read. It was not changed.", blocked: false };
    return { draft: old ?? newDraft(), told, blocked: false };
  } catch {
    return { draft: newDraft(), told, blocked: false };
  }
}

function newerOf(key: string, user: string): boolean {
  const version = /^headway\.draft\.(\d{1,6})\./.exec(key)?.[1];
  return version !== undefined && Number(version) > VERSION && key === slot(user, Number(version));
}

/** The draft of an older page, moved to where this one keeps it. It is read once: what was submitted must not come back. */
function movedDraft(user: string): Draft | "unread" | null {
  const from = OLD.map((version) => slot(user, version)).find((one) => sessionStorage.getItem(one) !== null);
  if (from === undefined) return null;
  const old = fromOldDraft(sessionStorage.getItem(from) ?? "");
  if (old === null) return "unread";
  const draft = { ...draftOf(old.text, { asText: old.asText, aside: old.aside }), origin: "", code: old.code, requestId: old.requestId };
  // It stays in the old place if there is no room in the new one.
  if (saveDraft(user, draft) === "all") sessionStorage.removeItem(from);
  return draft;
}

// -- what was kept ---------------------------------------------------------------------------------------

type Loose = { readonly [key: string]: unknown };

const isObject = (value: unknown): value is Loose => typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === "string");
const isPlace = (value: unknown): boolean => value === undefined || (Number.isInteger(value) && (value as number) >= 0);
const isRows = (value: unknown, ...texts: readonly string[]): boolean =>
  Array.isArray(value) && value.every((row) => isObject(row) && isPlace(row["at"]) && texts.every((key) => typeof row[key] === "string"));

function isMarks(value: Loose): boolean {
  return isTexts(value["loose"]) && isRows(value["fixed"], "field", "why");
}

function isTask(value: unknown): value is TaskForm {
  if (!isObject(value) || !isMarks(value) || !isPlace(value["at"])) return false;
  const texts = ["key", "name", "image", "command", ...INPUTS.map((input) => input.key).filter((key) => key in value)];
  return (
    texts.every((key) => typeof value[key] === "string") &&
    (value["mode"] === "script" || value["mode"] === "argv") &&
    isRows(value["env"], "name", "value") &&
    isRows(value["ulimits"], "name", "value") &&
    isRows(value["needs"], "task", "on") &&
    isTexts(value["datasets"]) &&
    (value["secrets"] === undefined || isTexts(value["secrets"]))
  );
}

function isForm(value: unknown): value is JobForm {
  if (!isObject(value) || !isMarks(value)) return false;
  const { name, priority, defaults, tasks } = value;
  if (typeof name !== "string" || typeof priority !== "string" || !Array.isArray(tasks)) return false;
  return (defaults === null || isTask(defaults)) && tasks.every(isTask);
}

/** What this page kept; null where it is something else. */
function readDraft(json: string): Draft | null {
  let found: unknown;
  try {
    found = JSON.parse(json);
  } catch {
    return null;
  }
  if (!isObject(found) || found["version"] !== VERSION) return null;
  const { text, form, origin, aside, older, code, cloneOf, requestId } = found;
  if (typeof text !== "string" || typeof origin !== "string" || typeof aside !== "string" || typeof requestId !== "string") return null;
  if (form !== null && (!isForm(form) || readForm(text).form === null)) return null;
  const known = isObject(code) && typeof code["digest"] === "string" ? (code as unknown as CodeField) : null;
  return {
    text,
    form: form === null ? null : completed(form),
    origin,
    aside,
    ...(isTexts(older) ? { older: older as string[] } : {}),
    code: known,
    ...(typeof cloneOf === "string" ? { cloneOf } : {}),
    requestId,
  };
}

/** A page that came since may have more inputs, and binds needs to their tasks. */
function completed(form: JobForm): JobForm {
  const whole = (task: TaskForm): TaskForm => ({ ...blankTask(task.key), ...task });
  return bound({ ...form, defaults: form.defaults && whole(form.defaults), tasks: form.tasks.map(whole) });
}

/** What of a draft was kept: all of it, it without some of those put aside, or nothing. */
export type Kept = "all" | "some" | "none";

/** Keeps the draft for a reload, if need be without the oldest of those put aside. What can't be kept leaves no older state behind. */
export function saveDraft(user: string, draft: Draft): Kept {
  const aside = asideOf(draft);
  for (let left = aside.length; left >= 0; left--) {
    try {
      sessionStorage.setItem(slot(user), JSON.stringify({ version: VERSION, ...(left === aside.length ? draft : withAside(draft, aside.slice(0, left))) }));
      return left === aside.length ? "all" : "some";
    } catch {
      // Storage is full or forbidden: with less of it once more.
    }
  }
  try {
    // What is kept there is older than what is on the page: it would come back as if nothing was typed since.
    sessionStorage.removeItem(slot(user));
  } catch {
    // as above
  }
  return "none";
}

export function forgetDraft(user: string): void {
  try {
    sessionStorage.removeItem(slot(user));
    for (const version of OLD) {
      const one = slot(user, version);
      if (fromOldDraft(sessionStorage.getItem(one) ?? "") !== null) sessionStorage.removeItem(one);
    }
  } catch {
    // as above
  }
}

// -- what goes into it -----------------------------------------------------------------------------------

/** With an image or a dataset for its first task, and a sentence where that can't be. */
export function withTaken(draft: Draft, what: Taken): { readonly draft: Draft; readonly told: string } {
  const { image, dataset } = what;
  if (image === undefined && dataset === undefined) return { draft, told: "" };
  const form = draft.form ?? readForm(draft.text).form;
  const [first, ...others] = form?.tasks ?? [];
  if (form === null || first === undefined) {
    return { draft, told: `The draft has no form with a task, so ${image ?? dataset} was not put into it. Write it into the file.` };
  }
  const datasets = dataset === undefined || first.datasets.includes(dataset) ? first.datasets : [...first.datasets, dataset];
  const task = edited(first, { ...(image === undefined ? {} : { image }), ...(dataset === undefined ? {} : { datasets }) });
  return { draft: { ...draft, form: { ...form, tasks: [task, ...others] }, requestId: freshId() }, told: "" };
}
