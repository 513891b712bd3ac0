import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { own, ownKeys } from "../api/accounts";
import { Field, OtherFailure } from "./field";

/** One's own password. */
export function Password({ name }: { name: string }) {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [fresh, setFresh] = useState("");
  const [again, setAgain] = useState("");
  const [differs, setDiffers] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState(false);
  const [busy, setBusy] = useState(false);
  const change = (event: FormEvent): void => {
    event.preventDefault();
    if (busy) return;
    setDone(false);
    setError(null);
    setDiffers(again !== fresh);
    if (again !== fresh) return;
    setBusy(true);
    own
      .changePassword(current, fresh)
      .then(() => {
        setDone(true);
        setCurrent("");
        setFresh("");
        setAgain("");
        void client.invalidateQueries({ queryKey: ownKeys.sessions });
      }, setError)
      .finally(() => setBusy(false));
  };
  return (
    <section className="panel" aria-labelledby="password">
      <h2 id="password">Password</h2>
      <p className="note">A change ends your other sessions at once. This browser stays signed in, and your tokens stay.</p>
      <form aria-label="Change the password" onSubmit={change}>
        {/* For the browser's own store of passwords. */}
        <input className="hidden" autoComplete="username" value={name} readOnly tabIndex={-1} aria-hidden="true" />
        <div className="fields">
          <Field label="Current password" at="/current" error={error}>
            {(props) => (
              <input {...props} type="password" autoComplete="current-password" required value={current} onChange={(e) => setCurrent(e.target.value)} />
            )}
          </Field>
          <Field label="New password" at="/new" error={error} hint="Several words, or random characters; 8 at least.">
            {(props) => <input {...props} type="password" autoComplete="new-password" required value={fresh} onChange={(e) => setFresh(e.target.value)} />}
          </Field>
          <Field label="New password again" at="" error={null} wrong={differs ? "This is not the same password." : ""}>
            {(props) => (
              <input
                {...props}
                type="password"
                autoComplete="new-password"
                required
                value={again}
                onChange={(e) => {
                  setAgain(e.target.value);
                  setDiffers(false);
                }}
              />
            )}
          </Field>
        </div>
        <OtherFailure error={error} at={["/current", "/new"]} />
        <div className="actions">
          <button className="main" disabled={busy}>
            {busy ? "Changing …" : "Change the password"}
          </button>
          {done && (
            <span className="fine" role="status">
              Your password is changed. Your other sessions have ended.
            </span>
          )}
        </div>
      </form>
    </section>
  );
}
