/** What is being written, kept for this tab: a reload, a sign-in or a wrong click loses nothing. */
import { type JobForm, emptyTask } from "./form";
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
    return text === null ? newDraft() : completed(JSON.parse(text) as Draft);
  } catch {
    return newDraft();
  }
}

/** A page that came since may have more inputs. */
function completed(draft: Draft): Draft {
  const tasks = draft.form.tasks.map((task) => ({ ...emptyTask(task.key, task.name), ...task }));
  return { ...draft, form: { ...draft.form, tasks } };
}

export function saveDraft(user: string, draft: Draft): void {
  try {
    sessionStorage.setItem(slot(user), JSON.stringify(draft));
  } catch {
    // Storage is full or forbidden: the draft then lives as long as the page.
  }
}

export function forgetDraft(user: string): void {
  try {
    sessionStorage.removeItem(slot(user));
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
