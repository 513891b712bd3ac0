import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";

import { keys } from "../api/events";
import { type Registry, registries } from "../api/registries";
import { badHost, hostOf } from "../domain/registry-host";
import { Empty, Failure, useNow } from "./basics";
import { DeleteDialog } from "./delete-dialog";
import { Moment } from "./when";
import { Trouble } from "./kept-answer";

const KNOWN = ["docker.io", "ghcr.io", "quay.io", "nvcr.io"];

/** User names and passwords for registries; what is stored is never shown again. */
export function Registries() {
  const client = useQueryClient();
  const [host, setHost] = useState("");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);
  const [deleting, setDeleting] = useState<Registry | null>(null);
  const secret = useRef<HTMLInputElement>(null);
  const now = useNow(60_000);
  const list = useQuery({ queryKey: keys.registries, queryFn: registries.list });
  const rows = list.data ?? [];
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: keys.registries });
  const store = (event: FormEvent): void => {
    event.preventDefault();
    setDone("");
    const wrong = badHost(hostOf(host));
    setError(wrong ? new Error(wrong) : null);
    if (wrong) return;
    setBusy(true);
    registries
      .store(hostOf(host), username, password)
      .then(({ registry, checked }) => {
        setDone(checked ? `Stored. ${registry} accepts this user name and password.` : `Stored. ${registry} could not be reached, so the password is not checked yet.`);
        setHost("");
        setUsername("");
        setPassword("");
        void changed();
      }, setError)
      .finally(() => setBusy(false));
  };
  const edit = (row: Registry): void => {
    setHost(row.registry);
    setUsername(row.username);
    setPassword("");
    setDone("");
    setError(null);
    secret.current?.focus();
  };
  return (
    <section className="panel" aria-labelledby="registries">
      <h2 id="registries">Registries</h2>
      <p className="note">
        Images can come from a registry, too: <code>ghcr.io/lab/torch:2.5</code>. To use private images, store your user name and
        password for the registry here. They are encrypted, only used for your jobs, and never shown again.
      </p>
      <Trouble of={list} />
      {list.data !== undefined && rows.length === 0 && <Empty>No password is stored yet. Public images need none.</Empty>}
      {rows.length > 0 && (
        <table aria-label="Stored for registries" className="wide">
          <thead>
            <tr>
              <th>Registry</th>
              <th>User name</th>
              <th>Stored</th>
              <th>
                <span className="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.registry}>
                <td className="name">{row.registry}</td>
                <td className="breaks">{row.username}</td>
                <td className="number"><Moment at={row.changed_at} now={now} /></td>
                <td className="row-action">
                  <button className="small" aria-label={`New password for ${row.registry}`} onClick={() => edit(row)}>
                    New password …
                  </button>{" "}
                  <button className="small" aria-label={`Delete what is stored for ${row.registry}`} onClick={() => setDeleting(row)}>
                    Delete …
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <form aria-label="Store a password for a registry" onSubmit={store} autoComplete="off">
        <div className="fields">
          <label>
            <span>
              Registry <small>docker.io for Docker Hub</small>
            </span>
            <input
              value={host}
              list="known-registries"
              placeholder="ghcr.io"
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              required
              onChange={(e) => setHost(e.target.value)}
            />
          </label>
          <label>
            User name there
            <input
              value={username}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              required
              onChange={(e) => setUsername(e.target.value)}
            />
          </label>
          <label>
            Password or token
            {/* As a new one: the browser must not fill in, and so give away, what it knows for Headway. */}
            <input
              ref={secret}
              type="password"
              value={password}
              autoComplete="new-password"
              required
              onChange={(e) => setPassword(e.target.value)}
            />
          </label>
        </div>
        <datalist id="known-registries">
          {KNOWN.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <div className="actions">
          <button className="main" disabled={busy}>
            {busy ? "Asking the registry …" : "Store"}
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
          what={`what is stored for ${deleting.registry}`}
          jobs={[]}
          onDelete={{ now: () => registries.remove(deleting.registry), wait: null }}
          onDone={() => {
            setDeleting(null);
            setDone("");
            void changed();
          }}
          onClose={() => setDeleting(null)}
        >
          <p>Waiting jobs with private images of this registry will fail.</p>
        </DeleteDialog>
      )}
    </section>
  );
}
