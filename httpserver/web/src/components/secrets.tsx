import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";

import { keys } from "../api/events";
import { MOST_BYTES, type Secret, secrets } from "../api/secrets";
import { size } from "../domain/format";
import { Empty, Failure, useNow } from "./basics";
import { DeleteDialog } from "./delete-dialog";
import { HelpLink } from "./help-link";
import { Trouble } from "./kept-answer";
import { Moment } from "./when";

/** Values that one's tasks are given by name; what is stored is never shown again. */
export function Secrets() {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [file, setFile] = useState<File | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);
  const [deleting, setDeleting] = useState<Secret | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow(60_000);
  const list = useQuery({ queryKey: keys.secrets, queryFn: secrets.list });
  const rows = list.data ?? [];
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: keys.secrets });
  const empty = (): void => {
    setValue("");
    setFile(null);
    if (chooser.current) chooser.current.value = "";
  };
  const store = (event: FormEvent): void => {
    event.preventDefault();
    setDone("");
    const tooLarge = file !== null && file.size > MOST_BYTES;
    setError(tooLarge ? new Error(`The file has ${size(file.size)}. A secret may have 64 KiB.`) : null);
    if (tooLarge) return;
    setBusy(true);
    (file ? secrets.storeFile(name.trim(), file) : secrets.store(name.trim(), value))
      .then((stored) => {
        setDone(`${stored.name} is stored.${stored.file_only ? " It has a NUL byte, so tasks can have it as a file only." : ""} Tasks that start from now on get it.`);
        setName("");
        empty();
        void changed();
      }, setError)
      .finally(() => setBusy(false));
  };
  const replace = (row: Secret): void => {
    setName(row.name);
    empty();
    setDone("");
    setError(null);
    input.current?.focus();
  };
  return (
    <section className="panel" aria-labelledby="secrets">
      <h2 id="secrets">
        Secrets <HelpLink topic="secret" />
      </h2>
      <p className="note">
        Tokens and keys for your tasks. A job file names them: <code>secrets: [HF_TOKEN]</code>. They are encrypted, only given to
        your own tasks, and never shown again.
      </p>
      <Trouble of={list} />
      {list.data !== undefined && rows.length === 0 && <Empty>No secret is stored yet.</Empty>}
      {rows.length > 0 && (
        <table aria-label="Stored secrets" className="wide">
          <thead>
            <tr>
              <th>Name</th>
              <th>Size</th>
              <th>Stored</th>
              <th>
                <span className="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td className="name">{row.name}</td>
                <td className="number">
                  {size(row.size_bytes)}
                  {row.file_only && <small> as a file only</small>}
                </td>
                <td className="number"><Moment at={row.changed_at} now={now} /></td>
                <td className="row-action">
                  <button className="small" aria-label={`New value for ${row.name}`} onClick={() => replace(row)}>
                    New value …
                  </button>{" "}
                  <button className="small" aria-label={`Remove ${row.name}`} onClick={() => setDeleting(row)}>
                    Remove …
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <form aria-label="Store a secret" onSubmit={store} autoComplete="off">
        <div className="fields">
          <label>
            Name
            <input
              value={name}
              placeholder="HF_TOKEN"
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              required
              onChange={(e) => setName(e.target.value)}
            />
          </label>
          <label>
            Value
            {/* As a new one: the browser must not fill in what it knows for Headway. */}
            <input
              ref={input}
              type="password"
              value={value}
              autoComplete="new-password"
              disabled={file !== null}
              required={file === null}
              onChange={(e) => setValue(e.target.value)}
            />
          </label>
          <label>
            <span>
              or a file <small>such as a key of several lines</small>
            </span>
            <input ref={chooser} type="file" onChange={(e) => setFile(e.target.files?.[0] ?? null)} />
          </label>
        </div>
        <div className="actions">
          <button className="main" disabled={busy}>
            {busy ? "Storing …" : "Store"}
          </button>
          {done && (
            <span className="fine" role="status">
              {done}
            </span>
          )}
        </div>
        {error && <Failure error={error} />}
      </form>
      {deleting && (
        <DeleteDialog
          what={`the secret ${deleting.name}`}
          jobs={[]}
          onDelete={{ now: () => secrets.remove(deleting.name), wait: null }}
          onDone={() => {
            setDeleting(null);
            setDone("");
            void changed();
          }}
          onClose={() => setDeleting(null)}
        >
          <p>Tasks that name it and have not started fail at their start.</p>
        </DeleteDialog>
      )}
    </section>
  );
}
