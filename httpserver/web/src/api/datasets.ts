/** The data market. */
import { ask, askJson } from "./client";
import type { Change, Share, Use } from "./market";

export interface Version {
  readonly version: number;
  readonly state: "publishing" | "ready" | "failed";
  readonly progress: number | null;
  readonly files: number | null;
  readonly size_bytes: number | null;
  readonly checksum: string | null;
  readonly method: "reflink" | "hardlink" | "copy" | "";
  readonly published_at: number | null;
  readonly problem: string | null;
  readonly live_jobs: readonly string[];
}

export interface Dataset {
  readonly name: string;
  readonly owner: string;
  readonly public: boolean;
  readonly shared_with: Share;
  readonly description: string;
  readonly created_at: number;
  readonly may_change: boolean;
  readonly versions: readonly Version[];
  readonly used_by: readonly Use[];
}

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
  remove: async (name: string, version?: number): Promise<void> => {
    await ask("DELETE", at(name), { query: { version } });
  },
  checksums: (name: string, version: number): string => `/api/v1${at(name)}/${version}/checksums`,
};
