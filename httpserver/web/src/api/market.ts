/** The image market. */
import { ask, askJson } from "./client";

export interface Share {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

export interface Tag {
  readonly tag: string;
  readonly digest: string;
  readonly pushed_at: number;
  readonly pushed_by: string;
  readonly size_bytes: number;
  readonly architecture: string;
  readonly has_shell: boolean;
  readonly cuda_version: string;
  readonly frameworks: { readonly [name: string]: string };
}

export interface Layer {
  readonly digest: string;
  readonly size_bytes: number;
  readonly created_by: string;
}

export interface Use {
  readonly account: string;
  readonly jobs: number;
  readonly last_used_at: number;
}

export interface TagDetail extends Tag {
  readonly os: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly user: string;
  readonly working_dir: string;
  readonly env: readonly string[];
  readonly python_version: string;
  readonly has_bash: boolean;
  readonly require_cuda: string;
  readonly layers: readonly Layer[];
  readonly created_at: number | null;
  readonly used_by: readonly Use[];
  readonly live_jobs: readonly string[];
}

interface ImageBase {
  readonly id: string;
  readonly owner: string;
  readonly name: string;
  readonly full_name: string;
  readonly public: boolean;
  readonly shared_with: Share;
  readonly description: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly may_change: boolean;
  readonly last_good_run: { readonly job_id: string; readonly at: number } | null;
}

export interface Image extends ImageBase {
  readonly tags: readonly Tag[];
}

export interface ImageDetail extends ImageBase {
  readonly tags: readonly TagDetail[];
}

export interface ImagePage {
  readonly images: readonly Image[];
  readonly next_cursor: string | null;
}

export interface Change {
  readonly description?: string;
  readonly public?: boolean;
  readonly shared_with?: Share;
}

/** Slashes and colons of a name stay: they are part of the address. */
const at = (ref: string): string => `/images/${ref.split("/").map(encodeURIComponent).join("/").replaceAll("%3A", ":").replaceAll("%40", "@")}`;

export const market = {
  list: (query: { q?: string; owner?: string; limit?: number; cursor?: string }) => askJson<ImagePage>("GET", "/images", { query }),
  show: (ref: string) => askJson<ImageDetail>("GET", at(ref)),
  change: (ref: string, change: Change) => askJson<ImageDetail>("PATCH", at(ref), { json: change }),
  tag: (ref: string, tag: string) => askJson<ImageDetail>("POST", at(ref), { query: { op: "tag" }, json: { tag } }),
  /** With `wait`, what running jobs need goes when the last of them ends. */
  remove: async (ref: string, wait: boolean): Promise<void> => {
    await ask("DELETE", at(ref), { query: { wait: wait || undefined } });
  },
  archive: (ref: string): string => `/api/v1${at(ref)}/archive`,
};

export const groups = {
  list: async (): Promise<readonly string[]> => {
    const answer = await askJson<{ groups: readonly { name: string }[] }>("GET", "/groups");
    return answer.groups.map((group) => group.name);
  },
};
