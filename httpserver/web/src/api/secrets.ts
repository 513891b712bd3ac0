/** One's secrets for tasks: a value goes in and never comes out. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";

export type Secret = components["schemas"]["Secret"];

const at = (name: string): string => `/secrets/${encodeURIComponent(name)}`;

/** As in `atob`: each character is a byte. */
function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export const secrets = {
  list: async () => (await askJson<{ secrets: readonly Secret[] }>("GET", "/secrets")).secrets,
  store: (name: string, value: string) => askJson<Secret>("PUT", at(name), { json: { value } }),
  storeFile: async (name: string, file: Blob) =>
    askJson<Secret>("PUT", at(name), { json: { value: base64(new Uint8Array(await file.arrayBuffer())), encoding: "base64" } }),
  remove: async (name: string): Promise<void> => {
    await ask("DELETE", at(name));
  },
};

/** So many bytes a value may have. */
export const MOST_BYTES = 64 * 1024;
