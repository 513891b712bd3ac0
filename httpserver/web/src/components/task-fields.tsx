import { type ReactNode, useId } from "react";

import type { NeedOn, ProblemItem, TimeoutAdvice } from "../api/client";
import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import type { TaskForm } from "../domain/form";
import type { Topic } from "../domain/help";
import type { Option } from "../domain/options";
import { FieldProblems } from "./basics";
import { Combobox } from "./combobox";
import { DatasetsField } from "./datasets-field";
import { HelpLink } from "./help-link";
import { TimeoutHint } from "./timeout-advice";

interface Props {
  readonly task: TaskForm;
  readonly others: readonly string[];
  readonly problemsAt: (field: string) => readonly ProblemItem[];
  readonly removable: boolean;
  /** Whether a folder of code goes with the job. */
  readonly code: boolean;
  readonly images: readonly Option[];
  readonly datasets: readonly Option[] | null;
  /** What past runs say of its timeout; undefined: nothing. */
  readonly advice: TimeoutAdvice | undefined;
  /** What is typed for an image, for suggestions. */
  readonly onImageText: (text: string) => void;
  readonly onChange: (task: TaskForm) => void;
  readonly onRemove: () => void;
}

function Field({
  label,
  problems,
  hint,
  children,
}: {
  label: string;
  problems: readonly ProblemItem[];
  hint?: string;
  children: ReactNode;
}) {
  return (
    <label className={problems.length > 0 ? "wrong" : ""}>
      <span>
        {label}
        {hint && <small> {hint}</small>}
      </span>
      {children}
      <FieldProblems problems={problems} />
    </label>
  );
}

const HELP: { readonly [key: string]: Topic } = {
  timeout: "timeout",
  grace: "signals",
  gpus: "gpu",
  memory: "memory",
  network: "network",
  retries: "retries",
};

/** An input as the server's table describes it. */
export function PlainInput({
  input,
  value,
  problems,
  hint,
  onValue,
}: {
  input: TaskInput;
  value: string;
  problems: readonly ProblemItem[];
  hint: string;
  onValue: (value: string) => void;
}) {
  const shared = { value, onChange: (e: { target: { value: string } }) => onValue(e.target.value), required: input.required };
  const topic = HELP[input.key];
  const field = (
    <Field label={input.label} hint={hint} problems={problems}>
      {input.kind === "choice" ? (
        <select {...shared}>
          {input.choices.map((word) => (
            <option key={word} value={word}>
              {word}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...shared}
          {...(input.width === null ? {} : { size: input.width })}
          {...(input.mode ? { inputMode: input.mode } : {})}
          {...(input.placeholder ? { placeholder: input.placeholder } : {})}
        />
      )}
    </Field>
  );
  if (topic === undefined) return field;
  return (
    <span className="helped">
      {field}
      <HelpLink topic={topic} />
    </span>
  );
}

/** One task of the form. */
export function TaskFields({ task, others, problemsAt, removable, code, images, datasets, advice, onImageText, onChange, onRemove }: Props) {
  const imageField = useId();
  const set = (part: Partial<TaskForm>): void => onChange({ ...task, ...part });
  const missing = others.filter((name) => name && !task.needs.some((n) => n.task === name));
  return (
    <fieldset className="task-fields">
      <legend>{task.name || "task"}</legend>
      <div className="fields">
        <Field label="Task name" problems={problemsAt("/name")}>
          <input value={task.name} onChange={(e) => set({ name: e.target.value })} required />
        </Field>
        <div className={problemsAt("/image").length > 0 ? "field wrong" : "field"}>
          <span className="helped">
            <label htmlFor={imageField}>Image</label>
            <HelpLink topic="image" />
          </span>
          <Combobox
            id={imageField}
            value={task.image}
            options={images}
            footer="Or a name with its registry, such as ghcr.io/owner/name:tag."
            required
            onText={(image) => {
              set({ image });
              onImageText(image);
            }}
            onPick={(image) => set({ image })}
          />
          <FieldProblems problems={problemsAt("/image")} />
        </div>
      </div>
      <Field
        label="Command"
        problems={[...problemsAt("/command"), ...problemsAt("/shell")]}
        hint={task.mode === "script" ? "a shell script; it stops at the first error (/bin/sh -e)" : "one word a line, run without a shell"}
      >
        <textarea
          rows={4}
          placeholder={task.mode === "script" ? "python3 /root/nfs/train.py --epochs 10" : "python3\n/root/nfs/train.py"}
          value={task.command}
          spellCheck={false}
          onChange={(e) => set({ command: e.target.value })}
          required
        />
      </Field>
      <label className="inline">
        <input type="checkbox" checked={task.mode === "argv"} onChange={(e) => set({ mode: e.target.checked ? "argv" : "script" })} />
        without a shell
      </label>
      <div className="fields">
        {INPUTS.map((input) => (
          <PlainInput
            key={input.key}
            input={input}
            value={task[input.key]}
            problems={problemsAt(`${input.under && `/${input.under}`}/${input.key}`)}
            hint={code && input.key === "working_dir" ? "/root/code if empty" : input.hint}
            onValue={(value) => set({ [input.key]: value })}
          />
        ))}
      </div>
      {advice && <TimeoutHint advice={advice} timeout={task.timeout} onTimeout={(timeout) => set({ timeout })} />}
      {others.length > 0 && (
        <div className="needs">
          <span>Needs</span>
          {task.needs.map((need) => (
            <span className="chip" key={need.task}>
              {need.task}
              <select
                aria-label={`How ${need.task} must end`}
                value={need.on}
                onChange={(e) => set({ needs: task.needs.map((n) => (n.task === need.task ? { ...n, on: e.target.value as NeedOn } : n)) })}
              >
                <option value="success">success</option>
                <option value="failure">failure</option>
                <option value="any">any end</option>
              </select>
              <button
                type="button"
                aria-label={`Does not need ${need.task}`}
                onClick={() => set({ needs: task.needs.filter((n) => n.task !== need.task) })}
              >
                ×
              </button>
            </span>
          ))}
          {missing.length > 0 && (
            <select
              aria-label="Add a need"
              value=""
              onChange={(e) => e.target.value && set({ needs: [...task.needs, { task: e.target.value, on: "success" }] })}
            >
              <option value="">add …</option>
              {missing.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          )}
          <FieldProblems problems={problemsAt("/needs")} />
        </div>
      )}
      <DatasetsField
        chosen={task.datasets}
        known={datasets}
        problems={problemsAt("/datasets")}
        onChange={(chosen) => set({ datasets: chosen })}
      />
      <FieldProblems problems={problemsAt("/code")} />
      <details className="env" open={task.env.length > 0}>
        <summary>Environment</summary>
        {task.env.map((pair, i) => (
          <div className="fields" key={i}>
            <input
              aria-label="Variable name"
              placeholder="NAME"
              value={pair.name}
              onChange={(e) => set({ env: task.env.map((p, j) => (i === j ? { ...p, name: e.target.value } : p)) })}
            />
            <input
              aria-label="Variable value"
              placeholder="value"
              value={pair.value}
              onChange={(e) => set({ env: task.env.map((p, j) => (i === j ? { ...p, value: e.target.value } : p)) })}
            />
            <button
              type="button"
              aria-label={`Remove ${pair.name || "this variable"}`}
              onClick={() => set({ env: task.env.filter((_, j) => j !== i) })}
            >
              ×
            </button>
          </div>
        ))}
        <button type="button" onClick={() => set({ env: [...task.env, { name: "", value: "" }] })}>
          Add a variable
        </button>
        <FieldProblems problems={problemsAt("/env")} />
      </details>
      {removable && (
        <button type="button" className="quiet" onClick={onRemove}>
          Remove this task
        </button>
      )}
    </fieldset>
  );
}
