/** The data market. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";
import type { Change } from "./market";

export type Version = components["schemas"]["DatasetVersion"];
export type Dataset = components["schemas"]["Dataset"];

export interface Publish {
  readonly name: string;
  readonly path: string;
  readonly description?: string;
  readonly public?: boolean;
  /** The bytes may be copied where they can't be shared. */
  readonly copy?: boolean;
}

const at = (name: string): string => `/datasets/${encodeURIComponent(name)}`;

export const datasets = {
  list: async (q = "") => (await askJson<{ datasets: readonly Dataset[] }>("GET", "/datasets", { query: { q } })).datasets,
  show: (name: string) => askJson<Dataset>("GET", at(name)),
  publish: (what: Publish) => askJson<Dataset>("POST", "/datasets", { json: what }),
  change: (name: string, change: Change) => askJson<Dataset>("PATCH", at(name), { json: change }),
  /** With `wait`, what running jobs need goes when the last of them ends. */
  remove: async (name: string, wait: boolean, version?: string): Promise<void> => {
    await ask("DELETE", at(name), { query: { version, wait: wait || undefined } });
  },
  checksums: (name: string, version: string): string => `/api/v1${at(name)}/${encodeURIComponent(version)}/checksums`,
};
