import { type FocusEvent, type KeyboardEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";

import { ApiError, type ProblemItem, type Submitted, type User, api, toApiError } from "../api/client";
import { useAdvice, useCompared, useSettled } from "../api/advice";
import { useClone } from "../api/clone";
import { useSuggestions } from "../api/suggestions";
import { Problems, Sentence, useTitle } from "../components/basics";
import { DraftNotices, type Refusal } from "../components/draft-notices";
import { Editor, type EditorHandle } from "../components/editor";
import { HelpLink } from "../components/help-link";
import { JobFields } from "../components/job-fields";
import { StartPreview } from "../components/start-preview";
import {
  type CodeField,
  type Draft,
  type Kept,
  asideOf,
  fileOf,
  forgetDraft,
  isBlank,
  loadDraft,
  replacing,
  saveDraft,
  takenBack,
  withTaken,
  withoutAside,
} from "../domain/draft";
import { type JobForm, blankTask, edited, holding } from "../domain/form";
import { freshId } from "../domain/id";
import { openedFile } from "../domain/open-file";
import { nowhere, placed } from "../domain/places";
import { readForm } from "../domain/read-form";
import { forgetTaken, taken } from "../domain/take";
import { comparison, complete, ownStart } from "../domain/variants";

const FOLLOWS_MS = 150;

interface Outcome {
  readonly error: Error | null;
  readonly problems: readonly ProblemItem[];
  /** The file that they are about, and its form. */
  readonly file: string;
  readonly form: JobForm | null;
  readonly fine: string;
  /** When it would start, and what past runs say of its timeouts. */
  readonly advice: readonly string[];
}

/** A draft of less is kept by any browser that keeps something. */
const LARGE = 1_000_000;

const NO_LINE = ["file", "button", "submit", "reset", "image"];

/** Enter in a field is no wish to send a job that may not be finished; with Ctrl it is. */
function onEnter(e: KeyboardEvent<HTMLFormElement>, main: HTMLButtonElement | null): void {
  const field = e.target as HTMLInputElement;
  if (e.key !== "Enter" || e.nativeEvent.isComposing || field.form !== e.currentTarget) return;
  if (e.ctrlKey || e.metaKey) {
    if (e.defaultPrevented || e.repeat || main === null || main.disabled) return;
    e.preventDefault();
    e.currentTarget.requestSubmit(main);
  } else if (field.tagName === "INPUT" && !NO_LINE.includes(field.type)) e.preventDefault();
}

const isImageField = (e: FocusEvent): boolean => e.target.getAttribute("role") === "combobox";

const count = (n: number): string => (n === 1 ? "One problem" : `${n} problems`);

const nothing: Outcome = { error: null, problems: [], file: "", form: null, fine: "", advice: [] };

const named = (advice: Submitted["timeouts"][number]): string => {
  const shown = advice.tasks.slice(0, 3);
  const rest = advice.task_count - shown.length;
  return `Timeout of ${shown.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`;
};

const starts = (preview: Submitted["preview"]): string[] => {
  if (preview === null) return [];
  const shown = preview.starts.slice(0, 5).map((one) => `${one.task}: ${one.sentence}`);
  const more = preview.queued_count - shown.length;
  return more > 0 ? [...shown, `And ${more} more tasks that would be queued at once.`] : shown;
};

/** Where the messages stand, in a word for who looks for them. */
function whereTold(problems: readonly ProblemItem[], above: number): string {
  if (above === problems.length) return "told above";
  const marked = problems.length - above === 1 ? "marked at its place" : "marked at their places";
  return above === 0 ? marked : `told above and ${marked}`;
}

export function Submit({ user, clone: cloned }: { user: User; clone?: string }) {
  useTitle("Submit");
  const [, go] = useLocation();
  const [loaded] = useState(() => {
    const { draft, told, blocked } = loadDraft(user.name);
    const put = withTaken(draft, taken(user.name));
    return { draft: put.draft, told: [told, put.told], blocked };
  });
  const [draft, setDraft] = useState<Draft>(loaded.draft);
  const [told, setTold] = useState<readonly string[]>(loaded.told);
  const [blocked, setBlocked] = useState(loaded.blocked);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [outcome, setOutcome] = useState<Outcome>(nothing);
  const [busy, setBusy] = useState<"" | "check" | "submit">("");
  const locked = busy === "submit";
  const [kept, setKept] = useState<Kept>("all");
  const [opening, setOpening] = useState("");
  /** Which file the editor shows: what was typed into another one can't be undone in this one. */
  const [shown, setShown] = useState(0);
  const editor = useRef<EditorHandle>(null);
  const main = useRef<HTMLButtonElement>(null);
  const sending = useRef(false);
  const { form } = draft;

  useEffect(() => {
    if (blocked) return;
    setKept(saveDraft(user.name, draft));
    forgetTaken(user.name);
  }, [user.name, draft, blocked]);

  const replace = (fresh: (old: Draft) => Draft): void => {
    setDraft(fresh);
    setRefusal(null);
    setOutcome(nothing);
    setOpening("");
    setShown((old) => old + 1);
  };
  const clone = useClone(cloned, draft.cloneOf, () => isBlank(loaded.draft), (text) => replace((old) => ({ ...replacing(old, text), cloneOf: cloned ?? "" })));
  const choose = (fresh: (old: Draft) => Draft): void => {
    clone.instead();
    replace(fresh);
  };
  const open = async (file: File): Promise<void> => {
    setOpening("");
    const opened = await openedFile(file);
    if ("why" in opened) setOpening(opened.why);
    else if (sending.current) setOpening(`${file.name} was not opened: this draft is being sent.`);
    else choose((old) => replacing(old, opened.text));
  };

  // What had the focus before the fields were locked has it again.
  const focused = useRef<HTMLElement | null>(null);
  useEffect(() => {
    if (!locked && document.activeElement === document.body) focused.current?.focus({ preventScroll: true });
  }, [locked]);

  const places = useMemo(() => (form === null ? nowhere : placed(outcome.problems, outcome.form, form)), [form, outcome]);

  // What is wrong may lie far above the buttons.
  useEffect(() => {
    if (outcome.problems.length > 0 && form !== null) document.querySelector("main :is(.wrong-text, .problems)")?.scrollIntoView({ block: "center" });
  }, [outcome.problems, form === null]);

  const [imageText, setImageText] = useState("");
  const known = useSuggestions(user.name, imageText);

  // The file follows the form as soon as the keys rest: typing never waits for it.
  const later = useSettled(draft, false, FOLLOWS_MS);
  const file = useMemo(() => (later.form === null ? "" : fileOf(later)), [later]);
  const notes = useMemo(() => {
    const read = form === null ? null : readForm(draft.text);
    return read?.form ? read.notes : [];
  }, [form === null, draft.text]);

  // A name of an image that is half typed would send the server to look for it, perhaps in a registry.
  const [naming, setNaming] = useState(false);
  const [current, setCurrent] = useState("");
  const ready = form !== null && form.tasks.length > 0 && form.tasks.every((task) => complete(holding(task, form.defaults)));
  const advice = useAdvice(useSettled(ready ? file : "", naming));
  // The task that was last typed in; of a job that is just opened, the first.
  const looked = form?.tasks.find((t) => t.key === current) ?? form?.tasks[0];
  const whole = form !== null && looked !== undefined ? holding(looked, form.defaults) : null;
  const wish = ready && whole ? comparison(whole, form.priority) : null;
  const compared = useCompared(useSettled(wish ? JSON.stringify(wish) : "", naming));

  const change = useCallback((part: Partial<Draft> | ((old: Draft) => Partial<Draft>)): void => {
    // Another content is another request: what was sent before stays what it was.
    setDraft((old) => ({ ...old, ...(typeof part === "function" ? part(old) : part), requestId: freshId() }));
    setRefusal(null);
    setOutcome((old) => (old.fine || old.error ? { ...old, error: null, fine: "", advice: [] } : old));
  }, []);

  const onForm = useCallback((edit: (form: JobForm) => JobForm) => change((old) => (old.form === null ? {} : { form: edit(old.form) })), [change]);

  const toText = (): void => {
    setRefusal(null);
    setDraft((old) => ({ ...old, text: fileOf(old), form: null }));
  };

  const toForm = (): void => {
    const read = readForm(draft.text);
    if (read.form === null) {
      setRefusal({ why: read.why, line: read.line });
      return;
    }
    setRefusal(null);
    setOutcome((old) => (old.file === draft.text ? { ...old, form: read.form } : nothing));
    setDraft((old) => ({ ...old, form: read.form }));
  };

  const send = async (dryRun: boolean): Promise<void> => {
    // A double click comes before the next render: the reference is what stops it.
    if (sending.current) return;
    sending.current = true;
    focused.current = document.activeElement as HTMLElement | null;
    setBusy(dryRun ? "check" : "submit");
    setOutcome(nothing);
    const body = fileOf(draft);
    try {
      const response = await fetch(`/api/v1/jobs${dryRun ? "?dry_run=true" : ""}`, {
        method: "POST",
        headers: { "Content-Type": "application/yaml", ...(dryRun ? {} : { "Idempotency-Key": draft.requestId }) },
        body,
      });
      const answer: unknown = await response.json().catch(() => null);
      if (!response.ok) throw toApiError(answer, response.status);
      const done = answer as Submitted;
      if (dryRun || done.id === null) {
        const warnings = done.warnings.length > 0 ? ` Note: ${done.warnings.join(" ")}` : "";
        setOutcome({
          ...nothing,
          // Beside the form the same is shown all the time.
          advice: form !== null ? [] : [...starts(done.preview), ...done.timeouts.slice(0, 5).map((one) => `${named(one)}: ${one.sentence}`)],
          fine: `The job is valid: ${done.task_count} task${done.task_count === 1 ? "" : "s"}, in this order: ${done.order.slice(0, 20).join(", ")}${done.order.length > 20 ? " …" : ""}.${warnings}`,
        });
      } else {
        if (!blocked) forgetDraft(user.name);
        go(`/jobs/${done.id}`);
      }
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) void api.GET("/api/v1/me").catch(() => undefined);
      const failure =
        error instanceof ApiError ? error : new ApiError("Headway does not answer; nothing you typed is lost. Try again.", 0, "no-service");
      setOutcome({ ...nothing, error: failure, problems: failure.problems, file: body, form });
    } finally {
      sending.current = false;
      setBusy("");
    }
  };

  const onCode = (code: CodeField | null): void =>
    change((old) => {
      if (old.form === null) return {};
      const defaults = edited(old.form.defaults ?? blankTask("defaults"), { code: code?.digest ?? "" });
      return { code, form: { ...old.form, defaults } };
    });
  const digest = form?.defaults?.code ?? "";
  const code = digest === "" ? null : draft.code?.digest === digest ? draft.code : { digest, folder: "", files: 0, sizeBytes: 0 };

  const above = form === null ? outcome.problems : places.rest;
  return (
    <>
      <div className="title-row">
        <div className="helped">
          <h1>Submit a job</h1>
          <HelpLink topic="job-file" />
        </div>
        <div className="tabs" role="tablist" aria-label="How to write it" inert={locked}>
          <button role="tab" aria-selected={form !== null} onClick={() => form === null && toForm()}>
            Form
          </button>
          <button role="tab" aria-selected={form === null} onClick={() => form !== null && toText()}>
            YAML
          </button>
        </div>
      </div>
      <p className="facts">A job has one task or several. A task runs a command in a container image. It finds your files in /root/nfs.</p>
      <div inert={locked}>
        <DraftNotices
          kept={blocked ? "all" : kept}
          isLarge={draft.text.length > LARGE}
          clone={clone}
          told={told}
          refusal={refusal}
          notes={notes}
          aside={asideOf(draft)}
          blocked={blocked}
          onLine={(line) => editor.current?.goTo(line, 1)}
          onTakeBack={(index) => choose((old) => takenBack(old, index))}
          onForgetAside={(index) => setDraft((old) => withoutAside(old, index))}
          onUnblock={() => {
            setBlocked(false);
            setTold([]);
          }}
        />
      </div>
      <Problems problems={above} {...(form === null ? { onPick: (p: ProblemItem) => editor.current?.goTo(p.line ?? 1, p.column ?? 1) } : {})} />
      <form
        onKeyDown={(e) => onEnter(e, main.current)}
        onSubmit={(e) => {
          e.preventDefault();
          // Whatever else the browser takes for a wish to send is none.
          if ((e.nativeEvent as SubmitEvent).submitter === main.current && !clone.missing) void send(false);
        }}
      >
        {form !== null ? (
          <div className="submit-split" inert={locked} onFocus={(e) => setNaming(isImageField(e))} onBlur={() => setNaming(false)}>
            <JobFields
              form={form}
              code={code}
              mayUseHigh={user.may_use_high_priority}
              places={places}
              images={known.images}
              datasets={known.datasets}
              secrets={known.secrets}
              {...(ready && !advice.refused && advice.checked ? { advice: advice.checked.timeouts } : {})}
              onForm={onForm}
              onCode={onCode}
              onImageText={setImageText}
              onLook={setCurrent}
            />
            <div className="beside">
              <StartPreview
                advice={advice}
                ready={ready}
                task={form.tasks.length > 1 ? (looked?.name ?? "") : ""}
                blocked={compared && whole && whole.needs.length > 0 ? (ownStart(compared, whole) ?? null) : null}
                compared={compared}
                onTimeout={(timeout) => onForm((old) => ({ ...old, tasks: old.tasks.map((t) => (t.key === looked?.key ? edited(t, { timeout }) : t)) }))}
              />
              <details className="preview" open>
                <summary>The same job as a file</summary>
                <pre>{file}</pre>
              </details>
            </div>
          </div>
        ) : (
          <>
            <p className="facts" inert={locked}>
              <label className="button">
                Open a file …
                <input
                  type="file"
                  accept=".yaml,.yml,.json"
                  className="hidden"
                  onChange={(e) => {
                    const chosen = e.target.files?.[0];
                    if (chosen) void open(chosen);
                    e.target.value = "";
                  }}
                />
              </label>
            </p>
            {opening && (
              <p className="bad-news" role="alert">
                {opening}
              </p>
            )}
            <Editor key={shown} ref={editor} locked={locked} text={draft.text} onChange={(text) => change({ text })} problems={outcome.problems} label="Job file" />
          </>
        )}
        <div className="actions below">
          <button type="button" disabled={busy !== ""} onClick={() => void send(true)}>
            {busy === "check" ? "Checking …" : "Check"}
          </button>
          <button ref={main} className="main" title="Ctrl+Enter" disabled={busy !== "" || clone.missing}>
            {locked ? "Sending …" : "Submit"}
          </button>
          {outcome.error && (
            <span className="bad-news" role="alert">
              {outcome.problems.length > 0 ? (
                `${count(outcome.problems.length)}, ${whereTold(outcome.problems, above.length)}. Nothing was submitted.`
              ) : (
                <Sentence text={outcome.error.message} />
              )}
            </span>
          )}
          {outcome.fine && (
            <span className="fine" role="status">
              {outcome.fine}
            </span>
          )}
        </div>
        {outcome.advice.map((sentence) => (
          <p key={sentence} className="hint">
            {sentence}
          </p>
        ))}
      </form>
    </>
  );
}
