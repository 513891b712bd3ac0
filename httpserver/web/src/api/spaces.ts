/** The personal space. Paths here are percent-encoded component by component: names may hold any bytes. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";

export type Entry = components["schemas"]["FileEntry"];
export type FileList = components["schemas"]["FileList"];

export type TrashItem = components["schemas"]["TrashItem"];
export type Space = components["schemas"]["Space"];

const at = (path: string): string => `/files/${path}`;

export const spaces = {
  list: (path: string, cursor: string, limit = 1000) => askJson<FileList>("GET", at(path), { query: { limit, cursor } }),
  /** The address of a file; of a folder as a zip. */
  address: (path: string, zip = false): string => `/api/v1${at(path)}${zip ? "?format=zip" : ""}`,
  put: async (path: string, file: Blob, overwrite: boolean, signal?: AbortSignal): Promise<void> => {
    await ask("PUT", at(path), {
      query: { parents: true, overwrite },
      body: file,
      headers: { "Content-Type": "application/octet-stream" },
      ...(signal === undefined ? {} : { signal }),
    });
  },
  makeFolder: async (path: string): Promise<void> => {
    await ask("POST", at(path), { query: { op: "mkdir" } });
  },
  /** `to` is plain text, as the server wants it. */
  move: async (path: string, to: string, overwrite = false): Promise<void> => {
    await ask("POST", at(path), { query: { op: "move" }, json: { to, overwrite } });
  },
  /** The id under which it lies in the trash. */
  remove: async (path: string, folder: boolean): Promise<string | null> => {
    const response = await ask("DELETE", at(path), { query: { recursive: folder || undefined } });
    return response.headers.get("Headway-Trash-Id");
  },
  space: () => askJson<Space>("GET", "/space"),
  trash: async () => (await askJson<{ items: readonly TrashItem[] }>("GET", "/trash")).items,
  /** To where it was, or to `to` (plain text). */
  restore: (id: string, to?: string) =>
    askJson<{ path: string }>("POST", `/trash/${encodeURIComponent(id)}/restore`, to === undefined ? {} : { json: { to } }),
  forget: async (id: string): Promise<void> => {
    await ask("DELETE", `/trash/${encodeURIComponent(id)}`);
  },
  emptyTrash: async (): Promise<void> => {
    await ask("DELETE", "/trash");
  },
};
