import { type FocusEvent, useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { stringify } from "yaml";

import { ApiError, type ProblemItem, type Submitted, type User, api, toApiError } from "../api/client";
import { useAdvice, useCompared, useSettled } from "../api/advice";
import { useSuggestions } from "../api/suggestions";
import { Problems, Sentence, useTitle } from "../components/basics";
import { CodeFieldset } from "../components/code-field";
import { Editor, type EditorHandle } from "../components/editor";
import { HelpLink } from "../components/help-link";
import { StartPreview } from "../components/start-preview";
import { TaskFields } from "../components/task-fields";
import { type Draft, forgetDraft, loadDraft, saveDraft } from "../domain/draft";
import { freshId } from "../domain/id";
import { emptyTask, isAt, removeTask, renameTask, toJobFile } from "../domain/form";
import { comparison, complete } from "../domain/variants";

interface Outcome {
  readonly error: Error | null;
  readonly problems: readonly ProblemItem[];
  readonly fine: string;
  /** When it would start, and what past runs say of its timeouts. */
  readonly advice: readonly string[];
}

const isImageField = (e: FocusEvent): boolean => e.target.getAttribute("role") === "combobox";

const count = (n: number): string => (n === 1 ? "One problem" : `${n} problems`);

const nothing: Outcome = { error: null, problems: [], fine: "", advice: [] };

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

export function Submit({ user, clone }: { user: User; clone?: string }) {
  useTitle("Submit");
  const [, go] = useLocation();
  const [draft, setDraft] = useState<Draft>(() => loadDraft(user.name));
  const [outcome, setOutcome] = useState<Outcome>(nothing);
  const [busy, setBusy] = useState(false);
  const editor = useRef<EditorHandle>(null);
  const sending = useRef(false);

  useEffect(() => {
    saveDraft(user.name, draft);
  }, [user.name, draft]);

  const cloned = draft.cloneOf;
  // A clone opens as text: loss-free, whatever the job holds.
  useEffect(() => {
    if (clone === undefined || cloned === clone) return;
    void fetch(`/api/v1/jobs/${encodeURIComponent(clone)}/spec?format=yaml`).then(async (response) => {
      if (!response.ok) {
        setOutcome({ ...nothing, error: toApiError(await response.json().catch(() => null), response.status) });
        return;
      }
      const yaml = await response.text();
      setDraft((old) => ({ ...old, tab: "yaml", yaml, cloneOf: clone, requestId: freshId() }));
    });
  }, [clone, cloned]);

  // What is wrong may lie far above the buttons.
  useEffect(() => {
    if (outcome.problems.length > 0 && draft.tab === "form")
      document.querySelector("label.wrong, .wrong-text, .problems")?.scrollIntoView({ block: "center" });
  }, [outcome.problems, draft.tab]);

  const [imageText, setImageText] = useState("");
  const known = useSuggestions(user.name, imageText);
  const file = useMemo(() => toJobFile(draft.form), [draft.form]);
  const form = draft.form;

  // A name of an image that is half typed would send the server to look for it, perhaps in a registry.
  const [naming, setNaming] = useState(false);
  const [current, setCurrent] = useState("");
  const ready = draft.tab === "form" && form.tasks.every(complete);
  const advice = useAdvice(useSettled(ready ? JSON.stringify(file) : "", naming));
  // The task that was last typed in, of those that would be queued at once.
  const firsts = form.tasks.filter((t) => t.needs.length === 0);
  const looked = firsts.find((t) => t.key === current) ?? firsts[0];
  const wish = ready && looked ? comparison(looked, form.priority) : null;
  const compared = useCompared(useSettled(wish ? JSON.stringify(wish) : "", naming));

  const change = (part: Partial<Draft>): void => {
    // Another content is another request: what was sent before stays what it was.
    setDraft((old) => ({ ...old, ...part, requestId: part.requestId ?? freshId() }));
    setOutcome((old) => (old.fine || old.error ? { ...nothing, problems: old.problems } : old));
  };

  const send = async (dryRun: boolean): Promise<void> => {
    // A double click comes before the next render: the reference is what stops it.
    if (sending.current) return;
    sending.current = true;
    setBusy(true);
    setOutcome(nothing);
    try {
      const yaml = draft.tab === "yaml";
      const response = await fetch(`/api/v1/jobs${dryRun ? "?dry_run=true" : ""}`, {
        method: "POST",
        headers: {
          "Content-Type": yaml ? "application/yaml" : "application/json",
          ...(dryRun ? {} : { "Idempotency-Key": draft.requestId }),
        },
        body: yaml ? draft.yaml : JSON.stringify(file),
      });
      const answer: unknown = await response.json().catch(() => null);
      if (!response.ok) throw toApiError(answer, response.status);
      const done = answer as Submitted;
      if (dryRun || done.id === null) {
        const warnings = done.warnings.length > 0 ? ` Note: ${done.warnings.join(" ")}` : "";
        setOutcome({
          ...nothing,
          // Beside the form the same is shown all the time.
          advice: draft.tab === "form" ? [] : [...starts(done.preview), ...done.timeouts.slice(0, 5).map((one) => `${named(one)}: ${one.sentence}`)],
          fine: `The job is valid: ${done.task_count} task${done.task_count === 1 ? "" : "s"}, in this order: ${done.order.slice(0, 20).join(", ")}${done.order.length > 20 ? " …" : ""}.${warnings}`,
        });
      } else {
        forgetDraft(user.name);
        go(`/jobs/${done.id}`);
      }
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) void api.GET("/api/v1/me").catch(() => undefined);
      const failure =
        error instanceof ApiError ? error : new ApiError("Headway does not answer; nothing you typed is lost. Try again.", 0, "no-service");
      setOutcome({ ...nothing, error: failure, problems: failure.problems });
    } finally {
      sending.current = false;
      setBusy(false);
    }
  };

  const at = (pointer: string): readonly ProblemItem[] => (draft.tab === "form" ? outcome.problems.filter((p) => isAt(p, pointer)) : []);

  return (
    <>
      <div className="title-row">
        <div className="helped">
          <h1>Submit a job</h1>
          <HelpLink topic="job-file" />
        </div>
        <div className="tabs" role="tablist" aria-label="How to write it">
          <button role="tab" aria-selected={draft.tab === "form"} onClick={() => change({ tab: "form" })}>
            Form
          </button>
          <button
            role="tab"
            aria-selected={draft.tab === "yaml"}
            onClick={() => change({ tab: "yaml", yaml: draft.yaml || stringify(file) })}
          >
            YAML
          </button>
        </div>
      </div>
      <p className="facts">A job has one task or several. A task runs a command in a container image. It finds your files in /root/nfs.</p>
      <Problems
        problems={outcome.problems}
        {...(draft.tab === "yaml" ? { onPick: (p: ProblemItem) => editor.current?.goTo(p.line ?? 1, p.column ?? 1) } : {})}
      />
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(false);
        }}
      >
        {draft.tab === "form" ? (
          <div className="submit-split" onFocus={(e) => setNaming(isImageField(e))} onBlur={() => setNaming(false)}>
            <div>
              <div className="fields">
                <label className={at("/name").length > 0 ? "wrong" : ""}>
                  Job name
                  <input value={form.name} onChange={(e) => change({ form: { ...form, name: e.target.value } })} required />
                </label>
                <label className={at("/priority").length > 0 ? "wrong" : ""}>
                  Priority
                  <select
                    value={form.priority}
                    onChange={(e) => change({ form: { ...form, priority: e.target.value as "low" | "normal" | "high" } })}
                  >
                    <option value="low">low</option>
                    <option value="normal">normal</option>
                    {user.may_use_high_priority && <option value="high">high</option>}
                  </select>
                </label>
              </div>
              <CodeFieldset code={form.code} problems={at("/defaults/code")} onChange={(code) => change({ form: { ...form, code } })} />
              {form.tasks.map((task, index) => (
                <div key={task.key} onFocus={() => setCurrent(task.key)}>
                  <TaskFields
                    task={task}
                    others={form.tasks.filter((t) => t.key !== task.key).map((t) => t.name)}
                    problemsAt={(field) => at(`/tasks/${index}${field}`)}
                    removable={form.tasks.length > 1}
                    code={form.code !== null}
                    images={known.images}
                    datasets={known.datasets}
                    advice={ready && !advice.refused ? advice.checked?.timeouts.find((one) => one.tasks.includes(task.name)) : undefined}
                    onImageText={setImageText}
                    onChange={(fresh) =>
                      change({
                        form:
                          fresh.name !== task.name
                            ? renameTask(form, task.key, fresh.name)
                            : { ...form, tasks: form.tasks.map((t) => (t.key === task.key ? fresh : t)) },
                      })
                    }
                    onRemove={() => change({ form: removeTask(form, task.key) })}
                  />
                </div>
              ))}
              <button
                type="button"
                onClick={() => {
                  const last = form.tasks.at(-1);
                  const fresh = {
                    ...emptyTask(freshId(), `task-${form.tasks.length + 1}`, last?.image),
                    needs: last ? [{ task: last.name, on: "success" as const }] : [],
                  };
                  change({ form: { ...form, tasks: [...form.tasks, fresh] } });
                }}
              >
                Add a task
              </button>
            </div>
            <div className="beside">
              <StartPreview
                advice={advice}
                ready={ready}
                task={form.tasks.length > 1 ? (looked?.name ?? "") : ""}
                compared={compared}
                onTimeout={(timeout) =>
                  change({ form: { ...form, tasks: form.tasks.map((t) => (t.key === looked?.key ? { ...t, timeout } : t)) } })
                }
              />
              <details className="preview" open>
                <summary>The same job as a file</summary>
                <pre>{stringify(file)}</pre>
              </details>
            </div>
          </div>
        ) : (
          <>
            <p className="facts">
              <label className="button">
                Open a file …
                <input
                  type="file"
                  accept=".yaml,.yml,.json"
                  className="hidden"
                  onChange={(e) => {
                    const chosen = e.target.files?.[0];
                    if (chosen) void chosen.text().then((yaml) => change({ yaml }));
                    e.target.value = "";
                  }}
                />
              </label>
            </p>
            <Editor ref={editor} text={draft.yaml} onChange={(yaml) => change({ yaml })} problems={outcome.problems} label="Job file" />
          </>
        )}
        <div className="actions below">
          <button type="button" disabled={busy} onClick={() => void send(true)}>
            Check
          </button>
          <button className="main" disabled={busy}>
            {busy ? "Sending …" : "Submit"}
          </button>
          {outcome.error && (
            <span className="bad-news" role="alert">
              {outcome.problems.length > 0 ? (
                `${count(outcome.problems.length)}, told above and marked at ${outcome.problems.length === 1 ? "its place" : "their places"}. Nothing was submitted.`
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
