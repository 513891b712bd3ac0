import type { User } from "../api/client";
import { useTitle } from "../components/basics";
import { Groups } from "../components/groups";
import { Password } from "../components/password";
import { Registries } from "../components/registries";
import { Secrets } from "../components/secrets";
import { Sessions } from "../components/sessions";
import { Tokens } from "../components/tokens";

/** What belongs to an account besides its jobs and files. */
export function Account({ user }: { user: User }) {
  useTitle("Account");
  return (
    <>
      <h1>Account {user.name}</h1>
      <p className="facts">{user.admin ? "You are an admin: you can also see and change what belongs to others." : "Your settings, and all groups of this server."}</p>
      <Password name={user.name} />
      <Tokens />
      <Sessions />
      <Secrets />
      <Registries />
      <Groups admin={user.admin} />
    </>
  );
}
