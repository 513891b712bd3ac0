import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { type ListedUser, accountList, accounts } from "../api/accounts";
import { keys } from "../api/events";
import { NewAccountDialog } from "../components/account-new";
import { grantsOf } from "../components/account-rights";
import { SearchField, SortHead, useAddress } from "../components/address";
import { Empty, Meter, State, useNow, useTitle } from "../components/basics";
import { Trouble, shows } from "../components/kept-answer";
import { textIn } from "../domain/address";
import { moment, size } from "../domain/format";
import { sortIn, sorted } from "../domain/sort";

const COLUMNS = ["name", "uid", "role", "space", "signed-in"] as const;
const values = {
  name: (user: ListedUser) => user.name,
  uid: (user: ListedUser) => user.uid,
  role: (user: ListedUser) => `${user.enabled ? 1 : 2}${user.admin ? "admin" : "user"}`,
  space: (user: ListedUser) => user.space_used_bytes,
  "signed-in": (user: ListedUser) => user.signed_in_at,
};

/** All accounts, for admins. */
export function Accounts() {
  useTitle("Accounts");
  const client = useQueryClient();
  const [making, setMaking] = useState(false);
  const [given, change] = useAddress();
  const now = useNow(60_000);
  const list = useQuery({ queryKey: accountList, queryFn: accounts.list, refetchInterval: 60_000 });
  const wanted = textIn(given.get("q"));
  const sort = sortIn(given.get("sort"), COLUMNS);
  const head = { sort, onSort: (next: string | null) => change({ sort: next }) };
  const all = shows(list) ? (list.data ?? []) : [];
  const found = all.filter((user) => user.name.includes(wanted.trim().toLowerCase()));
  const rows = sorted(found, sort, values);
  return (
    <>
      <div className="title-row">
        <h1>Accounts</h1>
        <div className="filters">
          <SearchField label="Find an account" placeholder="name" value={wanted} onText={(q) => change({ q }, { typed: true })} />
          <Link className="button" href="/audit">
            Audit log
          </Link>
          <button className="main" onClick={() => setMaking(true)}>
            New account …
          </button>
        </div>
      </div>
      <Trouble of={list} />
      {list.isPending && <p className="empty">Loading …</p>}
      {shows(list) && (
        <p className="facts" role="status">
          {rows.length === all.length ? "" : `${rows.length} of `}
          {all.length} account{all.length === 1 ? "" : "s"}
        </p>
      )}
      {shows(list) && rows.length === 0 && <Empty>No account has that in its name.</Empty>}
      {rows.length > 0 && (
        <div className="scroll">
          <table aria-label="Accounts" className="wide accounts">
            <thead>
              <tr>
                <SortHead by="name" {...head}>
                  Name
                </SortHead>
                <SortHead by="uid" {...head}>
                  uid / gid
                </SortHead>
                <SortHead by="role" {...head}>
                  Role
                </SortHead>
                <th>Grants</th>
                <SortHead by="space" down {...head}>
                  Personal space
                </SortHead>
                <SortHead by="signed-in" down {...head}>
                  Last sign-in
                </SortHead>
              </tr>
            </thead>
            <tbody>
              {rows.map((user) => (
                <tr key={user.name}>
                  <td className="name">
                    <Link href={`/accounts/${encodeURIComponent(user.name)}`}>{user.name}</Link>
                  </td>
                  <td className="number" data-label="uid / gid">
                    {user.uid} / {user.gid}
                  </td>
                  <td>
                    <Role user={user} />
                  </td>
                  <td data-label="grants">{grantsOf(user).join(", ") || "–"}</td>
                  <td>
                    <Space user={user} />
                  </td>
                  <td className="number" data-label="last sign-in">
                    {user.signed_in_at === null ? "never" : moment(user.signed_in_at, now)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making && <NewAccountDialog onMade={() => void client.invalidateQueries({ queryKey: keys.accounts })} onClose={() => setMaking(false)} />}
    </>
  );
}

function Role({ user }: { user: ListedUser }) {
  return (
    <>
      {user.admin ? <State state="admin" tone="live" /> : "user "}
      {!user.enabled && <State state="disabled" tone="bad" />}
    </>
  );
}

/** What the personal space holds, and may hold. */
export function Space({ user }: { user: ListedUser }) {
  const used = user.space_used_bytes === null ? "not measured" : size(user.space_used_bytes);
  if (user.space_limit_bytes === null) return <>{used}, no limit</>;
  return <Meter scarce used={user.space_used_bytes} of={user.space_limit_bytes} text={`${used} of ${size(user.space_limit_bytes)}`} />;
}
