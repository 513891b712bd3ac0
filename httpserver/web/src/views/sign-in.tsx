import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";

import { ApiError, type User, api, body } from "../api/client";

/** Where the provider's way back leaves why it came to nothing. */
const PROBLEM = "sign_in";
/** Behind the sign-in one is where one was. */
const here = (): string => {
  const given = new URLSearchParams(window.location.search);
  given.delete(PROBLEM);
  const search = given.toString();
  return `${window.location.pathname}${search ? `?${search}` : ""}`;
};

/** The first page; `over` asks again above what is on screen when the session has ended. */
export function SignIn({ over = false, name = "", onSignedIn }: { over?: boolean; name?: string; onSignedIn: (user: User) => void }) {
  const [username, setUsername] = useState(name);
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const ways = useQuery({ queryKey: ["sign-in-ways"], queryFn: () => body(api.GET("/api/v1/session/ways")), staleTime: 60_000 });
  const failed = new URLSearchParams(window.location.search).get(PROBLEM);
  const told = failed !== null && !over ? (ways.data?.problems[failed] ?? "") : "";
  const byPassword = ways.data?.passwords !== "off";
  const provider = ways.data?.provider ?? null;
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
      {told && (
        <p className="failure" role="alert">
          {told}
        </p>
      )}
      {provider !== null && (
        <a className="button main" href={`/api/v1/session/provider?next=${encodeURIComponent(here())}`}>
          {provider}
        </a>
      )}
      {provider !== null && byPassword && <p className="note">{ways.data?.passwords === "admins" ? "Admins may sign in by password:" : "Or by your password:"}</p>}
      {!byPassword && (
        <p className="note">Passwords are switched off here. An admin on this machine comes in by “headway up --reset-password”, and signs in below.</p>
      )}
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
