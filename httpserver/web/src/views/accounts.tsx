import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";

import { type ListedUser, accountList, accounts } from "../api/accounts";
import { keys } from "../api/events";
import { NewAccountDialog } from "../components/account-new";
import { grantsOf } from "../components/account-rights";
import { Empty, Failure, Meter, State, useNow, useTitle } from "../components/basics";
import { moment, size } from "../domain/format";

/** All accounts, for admins. */
export function Accounts() {
  useTitle("Accounts");
  const client = useQueryClient();
  const [making, setMaking] = useState(false);
  const [address, setAddress] = useSearchParams();
  const now = useNow(60_000);
  const list = useQuery({ queryKey: accountList, queryFn: accounts.list, refetchInterval: 60_000 });
  const wanted = address.get("q") ?? "";
  const all = list.data ?? [];
  const rows = all.filter((user) => user.name.includes(wanted.trim().toLowerCase()));
  return (
    <>
      <div className="title-row">
        <h1>Accounts</h1>
        <div className="filters">
          <input
            type="search"
            aria-label="Find an account"
            placeholder="name"
            value={wanted}
            onChange={(e) => setAddress(e.target.value === "" ? {} : { q: e.target.value }, { replace: true })}
          />
          <button className="main" onClick={() => setMaking(true)}>
            New account …
          </button>
        </div>
      </div>
      {list.isError && <Failure error={list.error} again={() => void list.refetch()} />}
      {list.isPending && <p className="empty">Loading …</p>}
      {list.isSuccess && (
        <p className="facts" role="status">
          {rows.length === all.length ? "" : `${rows.length} of `}
          {all.length} account{all.length === 1 ? "" : "s"}
        </p>
      )}
      {list.isSuccess && rows.length === 0 && <Empty>No account has that in its name.</Empty>}
      {rows.length > 0 && (
        <div className="scroll">
          <table aria-label="Accounts" className="wide accounts">
            <thead>
              <tr>
                <th>Name</th>
                <th>uid / gid</th>
                <th>Role</th>
                <th>Grants</th>
                <th>Personal space</th>
                <th>Last sign-in</th>
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
