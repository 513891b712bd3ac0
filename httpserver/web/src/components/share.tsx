import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";

import { type Change, type Share, groups } from "../api/market";
import { Failure } from "./basics";
import { Dialog } from "./dialog";

interface Shared {
  readonly public: boolean;
  readonly shared_with: Share;
}

/** "private", "public", "shared with anna, group vision". */
export function sharedText(of: Shared): string {
  if (of.public) return "public";
  const words = [...of.shared_with.users, ...of.shared_with.groups.map((g) => `group ${g}`)];
  return words.length > 0 ? `shared with ${words.join(", ")}` : "private";
}

function Names({
  label,
  hint,
  names,
  known,
  onChange,
}: {
  label: string;
  hint: string;
  names: string[];
  known: readonly string[];
  onChange: (names: string[]) => void;
}) {
  const [text, setText] = useState("");
  const list = useId();
  const field = useId();
  const add = (): void => {
    const fresh = text.split(/[\s,]+/).filter((name) => name && !names.includes(name));
    if (fresh.length > 0) onChange([...names, ...fresh]);
    setText("");
  };
  return (
    <div className="names">
      <label htmlFor={field}>{label}</label>
      <span className="with-button">
        <input
          id={field}
          value={text}
          list={list}
          placeholder={hint}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key !== "Enter") return;
            e.preventDefault();
            add();
          }}
        />
        <button type="button" onClick={add} disabled={!text.trim()} aria-label={`Add to ${label.toLowerCase()}`}>
          Add
        </button>
      </span>
      <datalist id={list}>
        {known.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <div className="chips">
        {names.map((name) => (
          <span className="chip" key={name}>
            {name}
            <button type="button" aria-label={`Not with ${name}`} onClick={() => onChange(names.filter((n) => n !== name))}>
              ×
            </button>
          </span>
        ))}
      </div>
    </div>
  );
}

/** Who else may use something. */
export function ShareDialog({
  what,
  of,
  onSave,
  onClose,
}: {
  what: string;
  of: Shared;
  onSave: (change: Change) => Promise<unknown>;
  onClose: () => void;
}) {
  const [everybody, setEverybody] = useState(of.public);
  const [users, setUsers] = useState(of.shared_with.users);
  const [inGroups, setInGroups] = useState(of.shared_with.groups);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const known = useQuery({ queryKey: ["groups"], queryFn: groups.list });
  const save = (): void => {
    setBusy(true);
    setError(null);
    onSave({ public: everybody, shared_with: { users, groups: inGroups } })
      .then(onClose, setError)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      title={`Share ${what}`}
      onClose={onClose}
      onSubmit={save}
      actions={
        <button className="main" disabled={busy}>
          Save
        </button>
      }
    >
      <p className="note">Those it is shared with can see and use it; only its owner can change it.</p>
      <label>
        <input type="checkbox" checked={everybody} onChange={(e) => setEverybody(e.target.checked)} /> Public: everybody here
      </label>
      <Names label="People" hint="account name" names={users} known={[]} onChange={setUsers} />
      <Names label="Groups" hint="group name" names={inGroups} known={known.data ?? []} onChange={setInGroups} />
      {error && <Failure error={error} />}
    </Dialog>
  );
}
