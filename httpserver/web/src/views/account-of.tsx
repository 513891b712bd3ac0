import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { useAct } from "../api/act";
import { type Kind, type ListedUser, accountList, accounts, held } from "../api/accounts";
import { keys } from "../api/events";
import { DisableDialog, QuotaDialog, RemoveDialog, ResetDialog, RightsDialog } from "../components/account-dialogs";
import { grantsOf } from "../components/account-rights";
import { Empty, Failure, State, useNow, useTitle } from "../components/basics";
import { EndAllDialog } from "../components/end-all-dialog";
import { HeldTable } from "../components/held";
import { Trouble, shows } from "../components/kept-answer";
import { tell } from "../components/toasts";
import { moment } from "../domain/format";
import { firstPress } from "../domain/press";
import { Space } from "./accounts";

type Asking = "disable" | "reset" | "quota" | "rights" | "remove" | null;

/** One account, for admins. */
export function AccountOf({ name, me }: { name: string; me: string }) {
  useTitle(`Account ${name}`);
  const list = useQuery({ queryKey: accountList, queryFn: accounts.list, refetchInterval: 60_000 });
  if (list.isPending) return <p>Loading …</p>;
  const all = shows(list) ? (list.data ?? []) : [];
  const user = all.find((one) => one.name === name);
  return (
    <>
      <p>
        <Link href="/accounts">All accounts</Link>
      </p>
      <Trouble of={list} />
      {shows(list) && user === undefined && <Empty>There is no account of this name.</Empty>}
      {user !== undefined && <Shown user={user} self={name === me} others={all.map((one) => one.name).filter((one) => one !== name)} />}
    </>
  );
}

function Shown({ user, self, others }: { user: ListedUser; self: boolean; others: readonly string[] }) {
  const client = useQueryClient();
  const [asking, setAsking] = useState<Asking>(null);
  const [, go] = useLocation();
  const now = useNow(60_000);
  const close = (): void => setAsking(null);
  const changed = (): Promise<unknown> =>
    Promise.all([
      client.invalidateQueries({ queryKey: keys.accounts }),
      client.invalidateQueries({ queryKey: held("tokens", user.name) }),
      client.invalidateQueries({ queryKey: held("sessions", user.name) }),
      ...(self ? [client.invalidateQueries({ queryKey: keys.me })] : []),
    ]);
  const done = (): void => {
    close();
    void changed();
  };
  const enable = useAct((name: string) => accounts.change(name, { enabled: true }), { after: changed });
  const asked = { user, self, onDone: done, onClose: close };
  return (
    <>
      <div className="title-row">
        <h1>
          Account {user.name} {!user.enabled && <State state="disabled" tone="bad" />}
        </h1>
        <div className="actions">
          {user.enabled ? (
            <button onClick={() => setAsking("disable")}>Disable …</button>
          ) : (
            <button disabled={enable.busy} title="Also releases the work that the disabling held" onClick={(e) => firstPress(e) && enable.run(user.name)}>
              Enable
            </button>
          )}
          {self ? (
            <Link className="button" href="/account">
              Your password
            </Link>
          ) : (
            <button onClick={() => setAsking("reset")}>Reset password …</button>
          )}
          <button onClick={() => setAsking("quota")}>Quota …</button>
          <button onClick={() => setAsking("rights")}>Rights …</button>
          <button disabled={user.enabled} title={user.enabled ? "Disable it first: that also says what becomes of its jobs." : ""} onClick={() => setAsking("remove")}>
            Remove …
          </button>
        </div>
      </div>
      {enable.error && <Failure error={enable.error} />}
      {!user.enabled && <p className="reason">Disabled: nobody can sign in with it. Its waiting work is held.</p>}
      <dl className="account-facts">
        <dt>uid / gid</dt>
        <dd>
          {user.uid} / {user.gid}
        </dd>
        <dt>Role</dt>
        <dd>{user.admin ? "admin" : "user"}</dd>
        <dt>Grants</dt>
        <dd>{grantsOf(user).join(", ") || "none"}</dd>
        <dt>Personal space</dt>
        <dd>
          <Space user={user} />
        </dd>
        <dt>Made</dt>
        <dd>{moment(user.created_at, now)}</dd>
        <dt>Last sign-in</dt>
        <dd>{user.signed_in_at === null ? "never" : moment(user.signed_in_at, now)}</dd>
      </dl>
      <Held name={user.name} kind="sessions" now={now} />
      <Held name={user.name} kind="tokens" now={now} />
      {asking === "disable" && <DisableDialog {...asked} />}
      {asking === "reset" && <ResetDialog {...asked} onDone={() => void changed()} />}
      {asking === "quota" && <QuotaDialog {...asked} />}
      {asking === "rights" && <RightsDialog {...asked} />}
      {asking === "remove" && (
        <RemoveDialog
          {...asked}
          others={others}
          onGone={(told) => {
            tell(told);
            void client.invalidateQueries({ queryKey: keys.accounts });
            go("/accounts");
          }}
        />
      )}
    </>
  );
}

const WORDS: Record<Kind, { readonly head: string; readonly none: string; readonly warning: string }> = {
  sessions: { head: "Sessions", none: "Nobody is signed in with it.", warning: "Pages, logs and uploads that are open with them stop at once." },
  tokens: { head: "Tokens", none: "It has no tokens.", warning: "Programs that use them are shut out at once." },
};

function Held({ name, kind, now }: { name: string; kind: Kind; now: number }) {
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const key = held(kind, name);
  const list = useQuery({ queryKey: key, queryFn: () => accounts.held(name, kind), staleTime: 0 });
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: key });
  const end = useAct((id: string) => accounts.end(name, kind, id), { after: changed });
  const rows = list.data ?? [];
  return (
    <section className="panel" aria-labelledby={kind}>
      <div className="title-row">
        <h2 id={kind}>{WORDS[kind].head}</h2>
        {rows.length > 0 && (
          <button className="small" onClick={() => setAsking(true)}>
            End all {kind} …
          </button>
        )}
      </div>
      <Trouble of={list} />
      {end.error && <Failure error={end.error} />}
      {list.isSuccess && rows.length === 0 && <Empty>{WORDS[kind].none}</Empty>}
      {rows.length > 0 && <HeldTable label={WORDS[kind].head} rows={rows} now={now} action="End" busy={end.busy} onEnd={(row) => end.run(row.id)} />}
      {asking && (
        <EndAllDialog
          title={`End all ${kind} of ${name}?`}
          onEnd={() => accounts.endAll(name, kind)}
          onClose={() => {
            setAsking(false);
            void changed();
          }}
        >
          <p>{WORDS[kind].warning}</p>
        </EndAllDialog>
      )}
    </section>
  );
}
