import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { type Token, type TokenMade, own, ownKeys } from "../api/accounts";
import { Empty, useNow } from "./basics";
import { DeleteDialog } from "./delete-dialog";
import { Field, OtherFailure } from "./field";
import { HeldTable, nameOf } from "./held";
import { Trouble } from "./kept-answer";
import { Once } from "./once";

const DAY_S = 86_400;
const LIVES: readonly (readonly [text: string, seconds: number | null])[] = [
  ["in 7 days", 7 * DAY_S],
  ["in 30 days", 30 * DAY_S],
  ["in 90 days", 90 * DAY_S],
  ["in a year", 365 * DAY_S],
  ["when I delete it", null],
];

/** One's own tokens, for programs. */
export function Tokens() {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [life, setLife] = useState(2);
  const [made, setMade] = useState<readonly TokenMade[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const [deleting, setDeleting] = useState<Token | null>(null);
  const now = useNow(60_000);
  const list = useQuery({ queryKey: ownKeys.tokens, queryFn: own.tokens });
  const rows = list.data ?? [];
  const changed = (): void => void client.invalidateQueries({ queryKey: ownKeys.tokens });
  const make = (event: FormEvent): void => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    own
      .makeToken(name.trim(), LIVES[life]?.[1] ?? null)
      .then((fresh) => {
        // One that nobody has taken yet stays beside it: it is shown nowhere again.
        setMade((before) => [...before, fresh]);
        setName("");
        changed();
      }, setError)
      .finally(() => setBusy(false));
  };
  return (
    <section className="panel" aria-labelledby="tokens">
      <h2 id="tokens">Tokens</h2>
      <p className="note">
        With a token a program does all that you may do. It needs no password. Give each program its own, and delete it when it is not needed any more.
      </p>
      <Trouble of={list} />
      {list.isSuccess && rows.length === 0 && <Empty>You have no tokens.</Empty>}
      {rows.length > 0 && <HeldTable label="Tokens" rows={rows} now={now} action="Delete …" onEnd={(row) => setDeleting(row as Token)} />}
      {made.map((one) => (
        <Once key={one.id} what={`The token ${one.name} is made.`} secret={one.token}>
          <p className="note">
            The command line takes it in the variable <code>HEADWAY_TOKEN</code>. Other programs send the header <code>Authorization: Bearer …</code>
          </p>
          <button type="button" className="small" onClick={() => setMade((before) => before.filter((other) => other.id !== one.id))}>
            I have it
          </button>
        </Once>
      ))}
      <form aria-label="Make a token" onSubmit={make} autoComplete="off">
        <div className="fields">
          <Field label="What it is for" at="/name" error={error}>
            {(props) => (
              <input {...props} value={name} required placeholder="nightly runs" autoComplete="off" onChange={(e) => setName(e.target.value)} />
            )}
          </Field>
          <Field label="Ends" at="/expires_in_s" error={error}>
            {(props) => (
              <select {...props} value={life} onChange={(e) => setLife(Number(e.target.value))}>
                {LIVES.map(([text], i) => (
                  <option key={text} value={i}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <OtherFailure error={error} at={["/name", "/expires_in_s"]} />
        <div className="actions">
          <button className="main" disabled={busy || name.trim() === ""}>
            {busy ? "Making it …" : "Make the token"}
          </button>
        </div>
      </form>
      {deleting && (
        <DeleteDialog
          what={`the token ${nameOf(deleting)}`}
          jobs={[]}
          onDelete={{ now: () => own.deleteToken(deleting.id), wait: null }}
          onDone={() => {
            setDeleting(null);
            changed();
          }}
          onClose={() => setDeleting(null)}
        >
          <p>Programs that use it are shut out at once.</p>
        </DeleteDialog>
      )}
    </section>
  );
}
