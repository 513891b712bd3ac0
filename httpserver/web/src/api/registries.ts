/** One's credentials for registries: a password goes in and never comes out. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";

export type Registry = components["schemas"]["Registry"];
export type Stored = components["schemas"]["RegistryStored"];

const at = (host: string): string => `/registries/${encodeURIComponent(host)}`;

export const registries = {
  list: async () => (await askJson<{ registries: readonly Registry[] }>("GET", "/registries")).registries,
  store: (host: string, username: string, password: string) => askJson<Stored>("PUT", at(host), { json: { username, password } }),
  remove: async (host: string): Promise<void> => {
    await ask("DELETE", at(host));
  },
};
