/** The image market. */
import { ask, askJson } from "./client";
import type { components } from "./generated/schema";

type Schemas = components["schemas"];
export type Share = Schemas["SharedWith"];
export type Tag = Schemas["ImageTag"];
export type TagDetail = Schemas["ImageTagDetail"];
export type Image = Schemas["Image"];
export type ImageDetail = Schemas["ImageDetail"];
export type ImagePage = Schemas["ImageList"];
export type Use = Schemas["UsedBy"];

export interface Change {
  readonly description?: string;
  readonly public?: boolean;
  readonly shared_with?: Share;
}

/** How a tag is spoken of: a content that no tag points to any more by its digest. */
export const refOf = (image: { readonly full_name: string }, tag: Tag): string =>
  tag.tag === "" ? `${image.full_name}@${tag.digest}` : `${image.full_name}:${tag.tag}`;

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
