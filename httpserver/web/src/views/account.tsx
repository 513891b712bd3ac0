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
      <p className="facts">{user.admin ? "You are an admin: you can also see and change what belongs to others." : "Your settings, and all groups of this server."}</p>
      <Registries />
      <Groups admin={user.admin} />
    </>
  );
}
