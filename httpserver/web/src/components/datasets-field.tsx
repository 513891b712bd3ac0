import { useId, useState } from "react";

import type { ProblemItem } from "../api/client";
import type { Option } from "../domain/options";
import { HelpLink } from "./help-link";
import { Combobox } from "./combobox";
import { Messages, aria } from "./form-field";

const nameOf = (dataset: string): string => dataset.split("@")[0] ?? "";

/** Datasets that a task reads: as many as one likes, each with a version or without. */
export function DatasetsField({
  chosen,
  known,
  problems,
  onChange,
}: {
  chosen: readonly string[];
  known: readonly Option[] | null;
  problems: readonly ProblemItem[];
  onChange: (chosen: readonly string[]) => void;
}) {
  const [text, setText] = useState("");
  const id = useId();
  // One task can't have two versions of one.
  const taken = new Set(chosen.map(nameOf));
  const add = (name: string): void => {
    const fresh = name.trim();
    if (fresh && !chosen.includes(fresh)) onChange([...chosen, fresh]);
    setText("");
  };
  return (
    <div className="needs" role="group" aria-label="Datasets">
      <span>Datasets</span>
      <HelpLink topic="data" />
      {chosen.map((name) => (
        <span className="chip" key={name}>
          {name}
          <button type="button" aria-label={`Remove dataset ${name}`} onClick={() => onChange(chosen.filter((n) => n !== name))}>
            ×
          </button>
        </span>
      ))}
      <Combobox
        label="Add a dataset"
        placeholder="add …"
        about={aria(problems, id)}
        size={18}
        value={text}
        options={(known ?? []).filter((option) => !taken.has(nameOf(option.value)))}
        {...(known?.length === 0 ? { footer: "You can use no dataset yet. Publish a folder on the page Datasets." } : {})}
        onText={setText}
        onPick={add}
        onEnter={() => add(text)}
        onBlur={() => add(text)}
      />
      {chosen.length > 0 && (
        <small className="note">
          read-only at <code>/root/datasets/{chosen.length === 1 ? [...taken][0] : "NAME"}</code>; without @VERSION it is the newest
          at submit
        </small>
      )}
      <Messages problems={problems} id={id} />
    </div>
  );
}
