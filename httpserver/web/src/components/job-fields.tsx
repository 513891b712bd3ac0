import { Fragment, useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { TimeoutAdvice } from "../api/client";
import type { CodeField } from "../domain/draft";
import { type JobForm, MOST_TASKS, type TaskForm, addTask, blankTask, bound, placeOf, removeTask, renameTask, restoreTask } from "../domain/form";
import { freshId } from "../domain/id";
import type { Option } from "../domain/options";
import type { Places } from "../domain/places";
import { CodeFieldset } from "./code-field";
import { Field } from "./form-field";
import { TaskFields, short } from "./task-fields";

const NO_ADVICE: readonly TimeoutAdvice[] = [];
const ignore = (): void => undefined;

/** Whether there is more to share than the code, which has a field of its own. */
const shares = (defaults: TaskForm | null): boolean =>
  defaults !== null && JSON.stringify({ ...defaults, code: "" }) !== JSON.stringify(blankTask("defaults"));

/** A job as a form. `onForm`: with a function of the form as it is then. */
export function JobFields({
  form,
  code,
  mayUseHigh,
  places,
  images,
  datasets,
  secrets,
  advice = NO_ADVICE,
  onForm,
  onCode,
  onImageText,
  onLook,
}: {
  form: JobForm;
  code: CodeField | null;
  mayUseHigh: boolean;
  places: Places;
  images: readonly Option[];
  datasets: readonly Option[] | null;
  secrets: readonly string[] | null;
  advice?: readonly TimeoutAdvice[];
  onForm: (change: (form: JobForm) => JobForm) => void;
  onCode: (code: CodeField | null) => void;
  onImageText: (text: string) => void;
  onLook: (key: string) => void;
}) {
  const [sharing, setSharing] = useState(false);
  const { defaults } = form;
  const named = JSON.stringify(form.tasks.map((task) => task.name));
  const names = useMemo(() => JSON.parse(named) as string[], [named]);
  const onTask = useCallback(
    (fresh: TaskForm) =>
      onForm((old) => {
        const before = old.tasks.find((task) => task.key === fresh.key);
        const renamed = before !== undefined && before.name !== fresh.name ? renameTask(old, fresh.key, fresh.name) : old;
        const tasks = renamed.tasks.map((task) => (task.key === fresh.key ? { ...fresh, needs: before?.needs === fresh.needs ? task.needs : fresh.needs } : task));
        // A need that was just chosen means the task that is called so now.
        return before === undefined || before.needs === fresh.needs ? { ...renamed, tasks } : bound({ ...renamed, tasks });
      }),
    [onForm],
  );
  // A name on the way to another one binds nobody: a finished name does.
  const latest = useRef(form);
  useEffect(() => void (latest.current = form), [form]);
  const onNamed = useCallback(() => {
    if (bound(latest.current) !== latest.current) onForm(bound);
  }, [onForm]);
  const onShared = useCallback((fresh: TaskForm) => onForm((old) => ({ ...old, defaults: fresh })), [onForm]);
  // They last as long as this form of the file.
  const [removed, setRemoved] = useState<readonly { readonly before: JobForm; readonly task: TaskForm }[]>([]);
  const onRemove = useCallback(
    (task: TaskForm) => {
      setRemoved((old) => [...old, { before: latest.current, task }]);
      onForm((old) => removeTask(old, task.key));
    },
    [onForm],
  );
  const gone = removed.at(-1);
  const undo = (): void => {
    if (gone === undefined) return;
    setRemoved((old) => old.slice(0, -1));
    onForm((old) => restoreTask(old, gone.before, gone.task.key));
  };
  const look = useCallback((task: TaskForm) => onLook(task.key), [onLook]);
  const common = { places, images, datasets, secrets, onImageText };
  const priorities = ["low", "normal", ...(mayUseHigh ? ["high"] : [])];
  const why = (field: string): string | undefined => form.fixed.find((one) => one.field === field)?.why;
  const text = (field: "name" | "priority") => (e: { target: { value: string } }) =>
    onForm((old) => ({ ...old, [field]: e.target.value, loose: old.loose.filter((one) => one !== field) }));
  const full = form.tasks.length >= MOST_TASKS;
  // It stands where the task stood: behind the nearest of those above it.
  const place = gone === undefined ? -1 : placeOf(form, gone.before, gone.task.key);
  const undoing = gone !== undefined && (
    <p className="hint" role="status">
      Task <bdi>{short(gone.task.name) || "without a name"}</bdi> was removed{gone.task.comments ? " with its comments in the file" : ""}.{" "}
      <button type="button" className="small" disabled={full} autoFocus key={gone.task.key} onClick={undo}>
        Undo
      </button>
    </p>
  );
  return (
    <div>
      <div className="fields">
        <Field label="Job name" problems={places.at("name")} fixed={why("name")}>
          {(about) => <input value={form.name} readOnly={why("name") !== undefined} onChange={text("name")} required {...about} />}
        </Field>
        <Field label="Priority" problems={places.at("priority")} fixed={why("priority")}>
          {(about) => (
            <select value={form.priority} disabled={why("priority") !== undefined} onChange={text("priority")} {...about}>
              {[...(form.priority === "" ? [""] : []), ...priorities, ...(form.priority === "" || priorities.includes(form.priority) ? [] : [form.priority])].map((word) => (
                <option key={word} value={word}>
                  {word || "normal (default)"}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <CodeFieldset code={code} problems={places.at("code")} onChange={onCode} />
      {(sharing || shares(defaults)) && (
        <TaskFields {...common} shared task={defaults ?? blankTask("defaults")} defaults={null} names={[]} removable={false} advice={undefined} onChange={onShared} onRemove={ignore} onLook={ignore} />
      )}
      {form.tasks.map((task, index) => (
        <Fragment key={task.key}>
          {index === place && undoing}
          <TaskFields
            {...common}
            task={task}
            defaults={defaults}
            names={names}
            removable={form.tasks.length > 1}
            advice={advice.find((one) => one.tasks.includes(task.name))}
            onChange={onTask}
            onNamed={onNamed}
            onRemove={onRemove}
            onLook={look}
          />
        </Fragment>
      ))}
      {place === form.tasks.length && undoing}
      <div className="actions">
        <button
          type="button"
          disabled={full}
          onClick={() => {
            const key = freshId();
            onForm((old) => addTask(old, key));
          }}
        >
          Add a task
        </button>
        {!sharing && !shares(defaults) && (
          <button type="button" className="quiet" onClick={() => setSharing(true)}>
            Add what all tasks share
          </button>
        )}
        {full && <small className="note">The form shows up to {MOST_TASKS} tasks. Write more of them as YAML.</small>}
      </div>
    </div>
  );
}
