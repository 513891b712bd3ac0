/** Groups of accounts: seen by all, changed by admins. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";

export type Group = components["schemas"]["Group"];

const at = (name: string): string => `/groups/${encodeURIComponent(name)}`;

export const groups = {
  list: async () => (await askJson<{ groups: readonly Group[] }>("GET", "/groups")).groups,
  create: (name: string, members: readonly string[]) => askJson<Group>("POST", "/groups", { json: { name, members } }),
  change: (name: string, add: readonly string[], remove: readonly string[]) => askJson<Group>("PATCH", at(name), { json: { add, remove } }),
  remove: async (name: string): Promise<void> => {
    await ask("DELETE", at(name));
  },
};

/** Names of all accounts, for admins. */
export const accountNames = async (): Promise<readonly string[]> =>
  (await askJson<components["schemas"]["UserList"]>("GET", "/users")).users.map((user) => user.name);
