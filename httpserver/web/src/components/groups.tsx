import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { keys } from "../api/events";
import { type Group, accountNames, groups } from "../api/groups";
import { Empty, Failure } from "./basics";
import { DeleteDialog } from "./delete-dialog";
import { Dialog } from "./dialog";
import { Names, type NamesState, allNames } from "./names";
import { Trouble } from "./kept-answer";

const NAME = /^[a-z_][a-z0-9_-]{0,31}$/;

type Asking = { readonly what: "new" } | { readonly what: "change" | "delete"; readonly group: Group } | null;

/** Who belongs together; all see it, admins change it. */
export function Groups({ admin }: { admin: boolean }) {
  const client = useQueryClient();
  const [asking, setAsking] = useState<Asking>(null);
  const list = useQuery({ queryKey: keys.groups, queryFn: groups.list });
  const rows = list.data ?? [];
  const close = (): void => {
    setAsking(null);
    void client.invalidateQueries({ queryKey: keys.groups });
  };
  return (
    <section className="panel" aria-labelledby="groups">
      <div className="title-row">
        <h2 id="groups">Groups</h2>
        {admin && (
          <button className="small" onClick={() => setAsking({ what: "new" })}>
            New group …
          </button>
        )}
      </div>
      <p className="note">
        Owners can share images and datasets with a group. Then all its members can use them.{!admin && " Only admins change its members."}
      </p>
      <Trouble of={list} />
      {list.data !== undefined && rows.length === 0 && <Empty>There are no groups yet.</Empty>}
      {rows.length > 0 && (
        <table aria-label="Groups" className="wide">
          <thead>
            <tr>
              <th>Name</th>
              <th>Members</th>
              {admin && (
                <th>
                  <span className="hidden">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((group) => (
              <tr key={group.name}>
                <td className="name">{group.name}</td>
                <td className="breaks">{group.members.length === 0 ? <span className="note">nobody yet</span> : group.members.join(", ")}</td>
                {admin && (
                  <td className="row-action">
                    <button className="small" aria-label={`Change ${group.name}`} onClick={() => setAsking({ what: "change", group })}>
                      Members …
                    </button>{" "}
                    <button className="small" aria-label={`Delete ${group.name}`} onClick={() => setAsking({ what: "delete", group })}>
                      Delete …
                    </button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {asking?.what === "new" && <GroupDialog group={null} onDone={close} onClose={() => setAsking(null)} />}
      {asking?.what === "change" && <GroupDialog group={asking.group} onDone={close} onClose={() => setAsking(null)} />}
      {asking?.what === "delete" && (
        <DeleteDialog
          what={`the group ${asking.group.name}`}
          jobs={[]}
          onDelete={{ now: () => groups.remove(asking.group.name), wait: null }}
          onDone={close}
          onClose={() => setAsking(null)}
        >
          <p>Its members lose access to what was shared with the group. Their accounts stay.</p>
        </DeleteDialog>
      )}
    </section>
  );
}

function GroupDialog({ group, onDone, onClose }: { group: Group | null; onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [members, setMembers] = useState<NamesState>({ names: group?.members ?? [], text: "" });
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const accounts = useQuery({ queryKey: keys.accounts, queryFn: accountNames });
  const wrong =
    group === null && name !== "" && !NAME.test(name)
      ? "A name has up to 32 lower-case letters, digits, _ and -. It begins with a letter or _."
      : "";
  const save = (): void => {
    if (wrong) return;
    const all = allNames(members);
    setMembers({ names: all, text: "" });
    setBusy(true);
    setError(null);
    const before = group?.members ?? [];
    const saved =
      group === null
        ? groups.create(name, all)
        : groups.change(
            group.name,
            all.filter((member) => !before.includes(member)),
            before.filter((member) => !all.includes(member)),
          );
    saved.then(onDone, setError).finally(() => setBusy(false));
  };
  return (
    <Dialog
      title={group === null ? "New group" : `Members of ${group.name}`}
      busy={busy}
      onClose={onClose}
      onSubmit={save}
      actions={
        <button className="main" disabled={busy || wrong !== "" || (group === null && name === "")}>
          {group === null ? "Make the group" : "Save"}
        </button>
      }
    >
      {group === null && (
        <label className="block">
          Group name
          <input
            value={name}
            autoFocus
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            onChange={(e) => setName(e.target.value)}
          />
        </label>
      )}
      {wrong && <p className="wrong-text">{wrong}</p>}
      <Names
        label="Members"
        hint="account name"
        without={(member) => `Remove ${member}`}
        state={members}
        known={accounts.data ?? []}
        onChange={setMembers}
      />
      {error && <Failure error={error} />}
    </Dialog>
  );
}
