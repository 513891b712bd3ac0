import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { useAct } from "../api/act";
import { type User, api, body } from "../api/client";
import { useAddress } from "../components/address";
import { Failure, useTitle } from "../components/basics";
import { Trouble } from "../components/kept-answer";
import { visible } from "../domain/paths";
import { firstPress } from "../domain/press";

const at = (code: string) => ({ params: { path: { code } } });

/** A command line asks to be let in as whoever looks at this page. */
export function Approve({ user }: { user: User }) {
  useTitle("Let a command line in");
  const [given, change] = useAddress();
  const code = given.get("code") ?? "";
  return (
    <>
      <h1>Let a command line in</h1>
      {code ? <Asked code={code} user={user} key={code} /> : <AskCode onCode={(typed) => change({ code: typed })} />}
    </>
  );
}

function AskCode({ onCode }: { onCode: (code: string) => void }) {
  const [typed, setTyped] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onCode(typed.trim());
  };
  return (
    <form className="panel" onSubmit={submit}>
      <label>
        The code that “headway login --browser” shows
        <input value={typed} onChange={(e) => setTyped(e.target.value)} required maxLength={20} autoFocus autoComplete="off" />
      </label>
      <button className="main">Look at it</button>
    </form>
  );
}

function Asked({ code, user }: { code: string; user: User }) {
  const [done, setDone] = useState<boolean | null>(null);
  const asked = useQuery({
    queryKey: ["sign-in-request", code],
    queryFn: () => body(api.GET("/api/v1/session/requests/{code}", at(code))),
    enabled: done === null,
    retry: false,
  });
  const decide = useAct(
    async (approve: boolean) => {
      await api.POST("/api/v1/session/requests/{code}", { ...at(code), body: { approve } });
      setDone(approve);
    },
    { after: () => Promise.resolve() },
  );
  if (done !== null) {
    return <p role="status">{done ? `It is signed in as ${user.name} in a moment. You can close this page.` : "It was turned away."}</p>;
  }
  return (
    <section className="panel" aria-label="The command line that asks">
      <Trouble of={asked} />
      {asked.isPending && <p>Loading …</p>}
      {asked.data && (
        <>
          <p>
            A command line at <b>{visible(asked.data.address)}</b> asks to be signed in as <b>{user.name}</b>. It shows the code <b>{asked.data.code}</b>.
          </p>
          <p className="note">Approve it only if you started it yourself just now, and it shows this very code. Whoever runs it may then do all that you may.</p>
          <p className="note">It calls itself {visible(asked.data.agent) || "nothing"}.</p>
          {decide.error && <Failure error={decide.error} />}
          <div className="actions">
            <button className="main" disabled={decide.busy} onClick={(e) => firstPress(e) && decide.run(true)}>
              Let it in
            </button>
            <button disabled={decide.busy} onClick={(e) => firstPress(e) && decide.run(false)}>
              Turn it away
            </button>
          </div>
        </>
      )}
    </section>
  );
}
