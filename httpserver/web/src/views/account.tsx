import type { User } from "../api/client";
import { useTitle } from "../components/basics";
import { Groups } from "../components/groups";
import { Registries } from "../components/registries";

/** What belongs to an account besides its jobs and files. */
export function Account({ user }: { user: User }) {
  useTitle("Account");
  return (
    <>
      <h1>Account {user.name}</h1>
      <p className="facts">{user.admin ? "An admin: you see and change what belongs to others, too." : "Your own settings, and the groups here."}</p>
      <Registries />
      <Groups admin={user.admin} />
    </>
  );
}
