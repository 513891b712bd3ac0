import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { keys } from "../api/events";
import { groups } from "../api/groups";
import type { Change, Share } from "../api/market";
import { Failure } from "./basics";
import { Dialog } from "./dialog";
import { Names, type NamesState, allNames } from "./names";

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

const without = (name: string): string => `Not with ${name}`;

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
  const [users, setUsers] = useState<NamesState>({ names: of.shared_with.users, text: "" });
  const [inGroups, setInGroups] = useState<NamesState>({ names: of.shared_with.groups, text: "" });
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const known = useQuery({ queryKey: keys.groups, queryFn: groups.list });
  const people = [...new Set((known.data ?? []).flatMap((group) => group.members))].sort();
  const save = (): void => {
    const all = { users: allNames(users), groups: allNames(inGroups) };
    // A refusal names them: they stand where each can be taken away.
    setUsers({ names: all.users, text: "" });
    setInGroups({ names: all.groups, text: "" });
    setBusy(true);
    setError(null);
    onSave({ public: everybody, shared_with: all })
      .then(onClose, setError)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      title={`Share ${what}`}
      busy={busy}
      onClose={onClose}
      onSubmit={save}
      actions={
        <button className="main" disabled={busy}>
          Save
        </button>
      }
    >
      <p className="note">The people and groups below can see and use it. Only the owner can change it.</p>
      <label>
        <input type="checkbox" checked={everybody} onChange={(e) => setEverybody(e.target.checked)} /> Public: everybody here
      </label>
      <Names label="People" hint="account name" without={without} state={users} known={people} onChange={setUsers} />
      <Names
        label="Groups"
        hint="group name"
        without={without}
        state={inGroups}
        known={(known.data ?? []).map((group) => group.name)}
        onChange={setInGroups}
      />
      {error && <Failure error={error} />}
    </Dialog>
  );
}
