import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { Link } from "wouter";

import { type Entry, spaces } from "../api/spaces";
import { size } from "../domain/format";
import { join, visible } from "../domain/paths";
import { firstPress } from "../domain/press";
import { Moment } from "./when";

const ROW_PX = 38;
/** So many rows before the end of what is known the next page is asked for. */
const AHEAD = 200;

export const folderHref = (path: string): string => (path === "" ? "/files" : `/files?in=${encodeURIComponent(path)}`);

const kindText: Record<Entry["kind"], string> = { file: "", folder: "folder", link: "link", other: "special file" };
/** Drawn, not letters: fonts of small machines have no pictures. */
const kindSign: Record<Entry["kind"], string> = {
  file: "M4 1.5h5.5L13 5v9.5H4zM9.5 1.5V5H13",
  folder: "M1.5 3.5h5l1.5 2h6.5v8h-13z",
  link: "M3 13V8.5h8M8.5 6l2.5 2.5L8.5 11",
  other: "M8 2.5 13.5 8 8 13.5 2.5 8z",
};

/** The entries of one folder; only the rows on screen exist. */
export function FolderTable({
  folder,
  entries,
  more,
  onMore,
  chosen,
  onChosen,
  onRename,
  onDelete,
  onPublish,
  now,
}: {
  folder: string;
  entries: readonly Entry[];
  /** Whether there are entries that are not known yet. */
  more: boolean;
  onMore: () => void;
  /** Encoded names. */
  chosen: ReadonlySet<string>;
  onChosen: (names: ReadonlySet<string>) => void;
  onRename: (entry: Entry) => void;
  onDelete: (entries: readonly Entry[]) => void;
  onPublish: (entry: Entry) => void;
  now: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last + AHEAD >= entries.length) onMore();
  }, [more, last, entries.length, onMore]);
  const toggle = (name: string): void => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    onChosen(next);
  };
  return (
    <div className="folder" ref={box} role="table" aria-label="Files" aria-rowcount={more ? -1 : entries.length}>
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {items.map((item) => {
          const entry = entries[item.index];
          if (entry === undefined) return null;
          const path = join(folder, entry.encoded);
          const name = visible(entry.name);
          const kind = kindText[entry.kind];
          return (
            <div
              key={entry.encoded}
              role="row"
              aria-rowindex={item.index + 1}
              data-entry={entry.name}
              className={chosen.has(entry.encoded) ? "file-row chosen" : "file-row"}
              style={{ height: ROW_PX, transform: `translateY(${item.start}px)` }}
            >
              <span role="cell">
                <input
                  type="checkbox"
                  aria-label={`Choose ${name}`}
                  checked={chosen.has(entry.encoded)}
                  onChange={() => toggle(entry.encoded)}
                />
              </span>
              <span role="cell" className="file-name">
                <svg className={`kind ${entry.kind}`} viewBox="0 0 16 16" aria-hidden="true">
                  <path d={kindSign[entry.kind]} />
                </svg>
                {entry.kind === "folder" ? (
                  <Link href={folderHref(path)}>{name}</Link>
                ) : entry.kind === "file" ? (
                  <a href={spaces.address(path)} download={entry.name} title={`Download ${name}`}>
                    {name}
                  </a>
                ) : (
                  name
                )}
                {kind && entry.kind !== "folder" && (
                  <small className="note">
                    {" "}
                    {kind}
                    {entry.link_target !== null && ` to ${visible(entry.link_target ?? "")}`}
                  </small>
                )}
              </span>
              <span role="cell" className="number">
                {entry.kind === "file" ? size(entry.size_bytes) : ""}
              </span>
              <span role="cell" className="number when">
                <Moment at={entry.modified_at} now={now} />
              </span>
              <span role="cell" className="file-actions">
                {entry.kind === "folder" && (
                  <>
                    <a className="button small" href={spaces.address(path, true)} download={`${entry.name}.zip`} aria-label={`Zip of ${name}`}>
                      Zip
                    </a>
                    <button className="small" aria-label={`Publish ${name} as dataset`} title="Publish as dataset …" onClick={() => onPublish(entry)}>
                      Publish …
                    </button>
                  </>
                )}
                <button className="small" aria-label={`Rename ${name}`} onClick={() => onRename(entry)}>
                  Rename
                </button>
                <button className="small" aria-label={`Delete ${name}`} onClick={(e) => firstPress(e) && onDelete([entry])}>
                  Delete
                </button>
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
