/** What is being written, kept for this tab: a reload, a sign-in or a wrong click loses nothing. */
import { type JobForm, type TaskForm, emptyTask } from "./form";
import { freshId } from "./id";

export interface Draft {
  readonly tab: "form" | "yaml";
  readonly form: JobForm;
  readonly yaml: string;
  /** The job whose file was loaded into `yaml`: a reload keeps what was changed since. */
  readonly cloneOf?: string;
  /** Sent with the submit: the same content sent twice is one job. */
  readonly requestId: string;
}

const slot = (user: string): string => `headway.draft.3.${user}`;
/** Where pages kept it that said `workingDir` for `working_dir`. */
const oldSlot = (user: string): string => `headway.draft.2.${user}`;

export function newDraft(): Draft {
  return {
    tab: "form",
    form: { name: "my job", priority: "normal", code: null, tasks: [emptyTask(freshId(), "task-1", "base/python:1")] },
    yaml: "",
    requestId: freshId(),
  };
}

export function loadDraft(user: string): Draft {
  try {
    const text = sessionStorage.getItem(slot(user));
    return text === null ? (movedDraft(user) ?? newDraft()) : completed(JSON.parse(text) as Draft);
  } catch {
    return newDraft();
  }
}

/** The draft of an older page, moved to where this one keeps it. It is read once: what was submitted must not come back. */
function movedDraft(user: string): Draft | null {
  const text = sessionStorage.getItem(oldSlot(user));
  if (text === null) return null;
  const old = JSON.parse(text) as Draft;
  const tasks = old.form.tasks.map((task) => {
    const { workingDir, ...others } = task as TaskForm & { readonly workingDir?: string };
    return workingDir === undefined ? others : { ...others, working_dir: workingDir };
  });
  const draft = completed({ ...old, form: { ...old.form, tasks } });
  // It stays in the old place if there is no room in the new one.
  if (saveDraft(user, draft)) sessionStorage.removeItem(oldSlot(user));
  return draft;
}

/** A page that came since may have more inputs. */
function completed(draft: Draft): Draft {
  const tasks = draft.form.tasks.map((task) => ({ ...emptyTask(task.key, task.name), ...task }));
  return { ...draft, form: { ...draft.form, tasks } };
}

/** Whether it was kept. */
export function saveDraft(user: string, draft: Draft): boolean {
  try {
    sessionStorage.setItem(slot(user), JSON.stringify(draft));
    return true;
  } catch {
    // Storage is full or forbidden: the draft then lives as long as the page.
    return false;
  }
}

export function forgetDraft(user: string): void {
  try {
    sessionStorage.removeItem(slot(user));
    sessionStorage.removeItem(oldSlot(user));
  } catch {
    // as above
  }
}

/** Puts an image or a dataset that was looked at into the form, as its first task's. */
export function takeIntoDraft(user: string, what: { readonly image?: string; readonly dataset?: string }): void {
  const draft = loadDraft(user);
  const [first, ...others] = draft.form.tasks;
  if (first === undefined) return;
  const { image = first.image, dataset } = what;
  const datasets = dataset === undefined || first.datasets.includes(dataset) ? first.datasets : [...first.datasets, dataset];
  const form = { ...draft.form, tasks: [{ ...first, image, datasets }, ...others] };
  saveDraft(user, { ...draft, tab: "form", form, requestId: freshId() });
}
