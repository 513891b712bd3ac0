import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";

import type { User } from "../api/client";
import { keys } from "../api/events";
import { type Image, type Tag, market } from "../api/market";
import { ONLY_WHOLE, SearchField, SortHead, useAddress } from "../components/address";
import { Empty, useNow, useTitle } from "../components/basics";
import { DropZone, FileButton } from "../components/drop-zone";
import { ImageForm, ImageUploads } from "../components/image-upload";
import { sharedText } from "../components/share";
import { HelpLink } from "../components/help-link";
import { Moment } from "../components/when";
import { Trouble } from "../components/kept-answer";
import { textIn, wordIn } from "../domain/address";
import { size } from "../domain/format";
import { sortIn, sorted } from "../domain/sort";

type Whose = "all" | "own" | "shared" | "base" | "public";

const isWanted: Record<Whose, (image: Image, me: string) => boolean> = {
  all: () => true,
  own: (image, me) => image.owner === me,
  shared: (image, me) => image.owner !== me && !image.public,
  base: (image) => image.owner === "base",
  public: (image) => image.public,
};

const COLUMNS = ["name", "size", "changed"] as const;
const values = {
  name: (image: Image) => image.full_name,
  size: (image: Image) => image.tags[0]?.size_bytes,
  changed: (image: Image) => image.updated_at,
};

/** Whose images the server itself picks out. */
const ownerOf = (whose: Whose, me: string): string => (whose === "own" ? me : whose === "base" ? "base" : "");

/** What a tag brings, in few words. */
export const inside = (tag: Tag): string =>
  [
    tag.architecture,
    tag.cuda_version && `CUDA ${tag.cuda_version}`,
    ...Object.entries(tag.frameworks).map(([name, version]) => `${name} ${version}`),
    !tag.has_shell && "no shell",
  ]
    .filter(Boolean)
    .join(", ");

export function Images({ user }: { user: User }) {
  useTitle("Images");
  const [given, change] = useAddress();
  const whose = wordIn(given.get("of"), Object.keys(isWanted) as Whose[], "all");
  const text = textIn(given.get("q"));
  const sort = sortIn(given.get("sort"), COLUMNS);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [file] = files;
  const filters = { q: text.trim(), owner: ownerOf(whose, user.name) };
  const images = useInfiniteQuery({
    queryKey: [...keys.images, filters],
    initialPageParam: "",
    queryFn: ({ pageParam }) => market.list({ ...filters, limit: 50, cursor: pageParam }),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: (old) => old,
  });
  const now = useNow(60_000);
  const found = (images.data?.pages ?? []).flatMap((p) => p.images).filter((image) => isWanted[whose](image, user.name));
  const rows = images.hasNextPage ? found : sorted(found, sort, values);
  const head = { sort, onSort: (next: string | null) => change({ sort: next }), off: images.hasNextPage ? ONLY_WHOLE : "" };
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = images;
  // Of a page none may be wanted: then the next one is looked at, and nobody is told that there is nothing.
  const searching = rows.length === 0 && hasNextPage;
  useEffect(() => {
    if (searching && !isFetchingNextPage) void fetchNextPage();
  }, [searching, isFetchingNextPage, fetchNextPage]);
  const take = (some: ArrayLike<File> | null): void => {
    const fresh = Array.from(some ?? []);
    if (fresh.length > 0) setFiles((waiting) => [...fresh, ...waiting]);
  };
  return (
    <DropZone label="Drop an image file here" onDrop={(found) => take(found.files.map((f) => f.file))}>
      <div className="title-row">
        <div className="helped">
          <h1>Images</h1>
          <HelpLink topic="image" />
        </div>
        <div className="filters">
          <label>
            Show{" "}
            <select value={whose} onChange={(e) => change({ of: e.target.value === "all" ? null : e.target.value })}>
              <option value="all">all</option>
              <option value="own">my own</option>
              <option value="shared">shared with me</option>
              <option value="base">base images</option>
              <option value="public">public</option>
            </select>
          </label>
          <SearchField placeholder="name, framework …" value={text} onText={(q) => change({ q }, { typed: true })} />
          <FileButton main onFiles={take}>
            Upload an image …
          </FileButton>
        </div>
      </div>
      <p className="facts">
        Each task runs in an image. Upload a file that <code>docker save</code> wrote, or{" "}
        <Link href="/help/images" title="An OCI archive: a folder of the OCI image layout as one file">
          what Podman, Buildah or Skopeo save
        </Link>
        ; it may be packed with gzip, zstd or xz. You can drop it on this page. A job can name an image of a registry, too; passwords for private ones are stored with your{" "}
        <Link href="/account">account</Link>.
      </p>
      {file && (
        <ImageForm
          key={`${file.name} ${file.lastModified} ${file.size}`}
          file={file}
          after={files.length - 1}
          user={user}
          onClose={() => setFiles((waiting) => waiting.filter((f) => f !== file))}
        />
      )}
      <ImageUploads onChoose={() => document.querySelector<HTMLInputElement>("main input[type=file]")?.click()} />
      <Trouble of={images} />
      {(images.isPending || searching) && <p className="empty">Loading …</p>}
      {images.data !== undefined && rows.length === 0 && !hasNextPage && <Empty>{text || whose !== "all" ? "No image matches." : "There are no images yet."}</Empty>}
      {rows.length > 0 && (
        <div className="scroll">
          <table className="wide">
            <thead>
              <tr>
                <SortHead by="name" {...head}>
                  Name
                </SortHead>
                <th>Tags</th>
                <th>Inside</th>
                <SortHead by="size" down {...head}>
                  Size
                </SortHead>
                <SortHead by="changed" down {...head}>
                  Changed
                </SortHead>
                <th>Who sees it</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((image) => {
                const newest = image.tags[0];
                return (
                  <tr key={image.id}>
                    <td className="name">
                      <Link href={`/images/${image.owner}/${image.name}`}>{image.full_name}</Link>
                      {image.description && <div className="why">{firstLine(image.description)}</div>}
                    </td>
                    <td>
                      {image.tags.filter((t) => t.tag).slice(0, 4).map((t) => (
                        <Link key={t.tag} className="chip-link" href={`/images/${image.owner}/${image.name}/${t.tag}`}>
                          {t.tag}
                        </Link>
                      ))}
                      {image.tags.length > 4 && <span className="note">and {image.tags.length - 4} more</span>}
                    </td>
                    <td>{newest && inside(newest)}</td>
                    <td className="number">{size(newest?.size_bytes)}</td>
                    <td className="number"><Moment at={image.updated_at} now={now} /></td>
                    <td>{sharedText(image)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {hasNextPage && !searching && (
        <button onClick={() => void fetchNextPage()} disabled={isFetchingNextPage}>
          More
        </button>
      )}
    </DropZone>
  );
}

const firstLine = (text: string): string => {
  const line = text.split("\n").find((l) => l.trim()) ?? "";
  const plain = line.replace(/^[#>*\s-]+/, "");
  return plain.length > 120 ? `${plain.slice(0, 120)}…` : plain;
};
