import { memo, useId, useState } from "react";

import type { ProblemItem, TimeoutAdvice } from "../api/client";
import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import { type InputKey, type TaskForm, edited, fieldOf, told } from "../domain/form";
import type { Topic } from "../domain/help";
import type { Option } from "../domain/options";
import type { Places } from "../domain/places";
import { Combobox } from "./combobox";
import { DatasetsField } from "./datasets-field";
import { Field, Fixed, Messages, aria } from "./form-field";
import { NeedsField } from "./needs-field";
import { PairRows } from "./pair-rows";
import { HelpLink } from "./help-link";
import { SecretsField } from "./secrets-field";
import { TimeoutHint } from "./timeout-advice";

interface Props {
  readonly task: TaskForm;
  /** What all tasks share; null: nothing. Of the shared fields themselves, too. */
  readonly defaults: TaskForm | null;
  /** Whether these are the fields that all tasks share. */
  readonly shared?: boolean;
  /** Of all tasks of the job. */
  readonly names: readonly string[];
  readonly places: Places;
  readonly removable: boolean;
  readonly images: readonly Option[];
  readonly datasets: readonly Option[] | null;
  /** Names of one's own. */
  readonly secrets?: readonly string[] | null;
  /** What past runs say of its timeout; undefined: nothing. */
  readonly advice: TimeoutAdvice | undefined;
  /** What is typed for an image, for suggestions. */
  readonly onImageText: (text: string) => void;
  readonly onChange: (task: TaskForm) => void;
  /** Its name is typed to the end. */
  readonly onNamed?: () => void;
  readonly onRemove: (task: TaskForm) => void;
  /** Some field of it is looked at. */
  readonly onLook: (task: TaskForm) => void;
}

/** Of a name that goes on for ever the beginning. */
export const short = (name: string): string => (name.length > 80 ? `${name.slice(0, 77)}...` : name);

const HELP: { readonly [key: string]: Topic } = {
  timeout: "timeout",
  grace: "signals",
  gpus: "gpu-task",
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
  empty = "",
  fixed,
  onValue,
}: {
  input: TaskInput;
  value: string;
  problems: readonly ProblemItem[];
  hint: string;
  /** What holds while it is empty. */
  empty?: string;
  fixed?: string | undefined;
  onValue: (value: string) => void;
}) {
  const known = input.choices.includes(value) || value === "";
  const topic = HELP[input.key];
  const field = (
    <Field label={input.label} hint={hint} problems={problems} fixed={fixed}>
      {(about) => {
        const shared = {
          value,
          onChange: (e: { target: { value: string } }) => onValue(e.target.value),
          ...(input.required && empty === "" ? { required: true } : {}),
          ...about,
        };
        return input.kind === "choice" ? (
          <select {...shared} disabled={fixed !== undefined}>
            <option value="">{empty ? `${empty}${empty.includes("(") ? "" : " (default)"}` : "–"}</option>
            {[...input.choices, ...(known ? [] : [value])].map((word) => (
              <option key={word} value={word}>
                {word}
              </option>
            ))}
          </select>
        ) : (
          <input
            {...shared}
            {...(fixed === undefined ? {} : { readOnly: true })}
            {...(input.width === null ? {} : { size: input.width })}
            {...(input.mode ? { inputMode: input.mode } : {})}
            {...(empty ? { placeholder: empty } : {})}
          />
        );
      }}
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

/** One task of the form, or what all tasks share. */
export const TaskFields = memo(function TaskFields({
  task, defaults, shared = false, names, places, removable, images, datasets, secrets = null, advice, onImageText, onChange, onNamed, onRemove, onLook,
}: Props) {
  const imageField = useId();
  const set = (part: Partial<TaskForm>): void => onChange(edited(task, part));
  const at = (field: string): readonly ProblemItem[] => places.at(`${task.key}:${field}`);
  const why = (field: string): string | undefined => task.fixed.find((one) => one.field === field)?.why;
  const problemsOfRows = (field: "env" | "ulimits" | "needs") => (name?: string) => at(name === undefined ? field : `${field}/${name}`);
  const inherited = shared ? null : defaults;
  const command = { lacks: inherited?.command ?? "", wide: task.command || !inherited ? task.mode : inherited.mode };
  const input = (one: TaskInput): React.ReactNode => (
    <PlainInput
      key={one.key}
      input={one}
      value={task[one.key as InputKey]}
      problems={at(fieldOf(one))}
      hint={inherited?.code && one.key === "working_dir" ? "/root/code if empty" : one.hint}
      empty={shared ? one.placeholder || one.otherwise : told(one, inherited)}
      fixed={why(fieldOf(one))}
      onValue={(value) => set({ [one.key]: value })}
    />
  );
  const others = names.filter((name) => name !== task.name);
  return (
    <fieldset className="task-fields" onFocus={() => onLook(task)}>
      <legend>
        <bdi>{shared ? "All tasks" : short(task.name) || "task"}</bdi>
      </legend>
      {shared && <p className="note">What a task leaves empty it has from here. Variables and limits of both hold.</p>}
      <Messages problems={places.at(task.key)} id={`${imageField}-all`} />
      <div className="fields">
        {!shared && (
          <Field label="Task name" problems={at("name")} fixed={why("name")}>
            {(about) => <input value={task.name} readOnly={why("name") !== undefined} onChange={(e) => set({ name: e.target.value })} onBlur={onNamed} required {...about} />}
          </Field>
        )}
        <div className={at("image").length > 0 ? "field wrong" : "field"}>
          <span className="helped">
            <label htmlFor={imageField}>Image</label>
            <HelpLink topic="image" />
          </span>
          <Combobox
            id={imageField}
            value={task.image}
            options={images}
            footer="Or a name with its registry, such as ghcr.io/owner/name:tag."
            required={!shared && !inherited?.image}
            {...(inherited?.image ? { placeholder: `${inherited.image} (of all tasks)` } : {})}
            readOnly={why("image") !== undefined}
            about={aria(at("image"), `${imageField}-told`)}
            onText={(image) => {
              set({ image });
              onImageText(image);
            }}
            onPick={(image) => set({ image })}
          />
          {why("image") !== undefined && <Fixed why={why("image") ?? ""} />}
          <Messages problems={at("image")} id={`${imageField}-told`} />
        </div>
      </div>
      <Field
        label="Command"
        problems={at("command")}
        hint={command.wide === "script" ? "a shell script; it stops at the first error (/bin/sh -e)" : "one word a line, run without a shell"}
        fixed={why("command")}
      >
        {(about) => (
          <textarea
            rows={4}
            placeholder={command.lacks ? `${command.lacks.slice(0, 200)} (of all tasks)` : command.wide === "script" ? "python3 /root/nfs/train.py --epochs 10" : "python3\n/root/nfs/train.py"}
            value={task.command}
            spellCheck={false}
            readOnly={why("command") !== undefined}
            onChange={(e) => set({ command: e.target.value })}
            required={!shared && command.lacks === ""}
            {...about}
          />
        )}
      </Field>
      <label className="inline">
        <input
          type="checkbox"
          checked={task.mode === "argv"}
          disabled={why("command") !== undefined}
          onChange={(e) => set({ mode: e.target.checked ? "argv" : "script" })}
        />
        without a shell
      </label>
      <div className="fields">{INPUTS.filter((one) => !one.more).map(input)}</div>
      {advice && <TimeoutHint advice={advice} timeout={task.timeout} onTimeout={(timeout) => set({ timeout })} />}
      {!shared && (others.length > 0 || task.needs.length > 0) && (
        <NeedsField
          needs={task.needs}
          others={others}
          fixed={why("needs")}
          problemsAt={problemsOfRows("needs")}
          onChange={(needs) => set({ needs })}
        />
      )}
      {why("datasets") === undefined ? (
        <DatasetsField chosen={task.datasets} known={datasets} problems={at("datasets")} onChange={(chosen) => set({ datasets: chosen })} />
      ) : (
        <p className="needs">
          <span>Datasets</span> <Fixed why={why("datasets") ?? ""} />
        </p>
      )}
      {why("secrets") === undefined ? (
        <SecretsField chosen={task.secrets} known={secrets} problems={at("secrets")} onChange={(chosen) => set({ secrets: chosen })} />
      ) : (
        <p className="needs">
          <span>Secrets</span> <Fixed why={why("secrets") ?? ""} />
        </p>
      )}
      <Folded
        title="Environment"
        used={task.env.length > 0 || why("env") !== undefined}
        wrong={at("env").length > 0 || task.env.some((row) => at(`env/${row.name}`).length > 0)}
      >
        {why("env") !== undefined && <Fixed why={why("env") ?? ""} />}
        <PairRows
          rows={task.env}
          words={{ one: "variable", name: "NAME", value: "value" }}
          shared={(inherited?.env ?? []).map((row) => row.name).filter((name) => !task.env.some((row) => row.name === name))}
          problemsAt={problemsOfRows("env")}
          onChange={(env) => set({ env })}
        />
      </Folded>
      <Folded
        title="More"
        used={task.ulimits.length > 0 || INPUTS.some((one) => one.more && (task[one.key] !== "" || why(fieldOf(one)) !== undefined))}
        wrong={at("ulimits").length > 0 || task.ulimits.some((row) => at(`ulimits/${row.name}`).length > 0) || INPUTS.some((one) => one.more && at(fieldOf(one)).length > 0)}
      >
        <div className="fields">{INPUTS.filter((one) => one.more && !(shared && one.key === "code")).map(input)}</div>
        <div role="group" aria-label="Limits of each process">
          <span>Limits of each process</span>
          {why("ulimits") !== undefined && <Fixed why={why("ulimits") ?? ""} />}
          <PairRows
            rows={task.ulimits}
            words={{ one: "limit", name: "nofile", value: "65536, or 1024:65536 (soft:hard)", names: ["nofile", "memlock"] }}
            shared={(inherited?.ulimits ?? []).map((row) => row.name).filter((name) => !task.ulimits.some((row) => row.name === name))}
            problemsAt={problemsOfRows("ulimits")}
            onChange={(ulimits) => set({ ulimits })}
          />
        </div>
      </Folded>
      {removable && (
        <button type="button" className="quiet" onClick={() => onRemove(task)}>
          {task.comments ? "Remove this task and its comments in the file" : "Remove this task"}
        </button>
      )}
    </fieldset>
  );
});

/** Seldom used fields. They open where there is something in them, and where something is wrong. */
function Folded({ title, used, wrong, children }: { title: string; used: boolean; wrong: boolean; children: React.ReactNode }) {
  const [open, setOpen] = useState(used);
  const shown = open || wrong;
  return (
    <details className="env" open={shown} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{title}</summary>
      {shown && children}
    </details>
  );
}
