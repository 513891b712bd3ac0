import { type FormEvent, useEffect, useRef, useState } from "react";

import { ApiError, type User, api, body } from "../api/client";

/** The first page; `over` asks again above what is on screen when the session has ended. */
export function SignIn({ over = false, name = "", onSignedIn }: { over?: boolean; name?: string; onSignedIn: (user: User) => void }) {
  const [username, setUsername] = useState(name);
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const dialog = useRef<HTMLDialogElement>(null);

  useEffect(() => {
    if (over && dialog.current !== null && !dialog.current.open) dialog.current.showModal();
  }, [over]);

  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const session = await body(api.POST("/api/v1/session", { body: { username, password } }));
      onSignedIn(session.user);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
      setPassword("");
    } finally {
      setBusy(false);
    }
  };

  const form = (
    <form className="sign-in" onSubmit={(e) => void submit(e)}>
      <h1>Headway</h1>
      <p>{over ? "Your session has ended. Sign in again; what you typed is kept." : "Headway runs your jobs on shared GPUs. Please sign in."}</p>
      <label>
        Name
        <input
          value={username}
          onChange={(e) => setUsername(e.target.value)}
          autoComplete="username"
          required
          autoFocus={!name}
          readOnly={over}
        />
      </label>
      <label>
        Password
        <input
          type="password"
          value={password}
          onChange={(e) => setPassword(e.target.value)}
          autoComplete="current-password"
          required
          autoFocus={!!name}
        />
      </label>
      {problem && (
        <p className="failure" role="alert">
          {problem}
        </p>
      )}
      <button className="main" disabled={busy}>
        {busy ? "Signing in …" : "Sign in"}
      </button>
    </form>
  );
  if (!over) return <main className="lonely">{form}</main>;
  return (
    <dialog ref={dialog} onCancel={(e) => e.preventDefault()}>
      {form}
    </dialog>
  );
}
