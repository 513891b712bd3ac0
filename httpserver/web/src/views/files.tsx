import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { useSearch } from "wouter/use-browser-location";

import { ApiError, type User } from "../api/client";
import { keys } from "../api/events";
import { startFiles } from "../api/file-uploads";
import { type Entry, spaces } from "../api/spaces";
import { useAddress } from "../components/address";
import { Empty, Failure, Meter, Sentence, useNow, useTitle } from "../components/basics";
import { DropZone, FileButton } from "../components/drop-zone";
import { FileUploads } from "../components/file-uploads";
import { FolderTable, folderHref } from "../components/folder-table";
import { NameDialog } from "../components/name-dialog";
import { PublishDialog } from "../components/publish-dialog";
import { Trouble, shows } from "../components/kept-answer";
import { tell } from "../components/toasts";
import { wordIn } from "../domain/address";
import { type Found, fromInput } from "../domain/dropped";
import { size } from "../domain/format";
import { sortIn, sorted } from "../domain/sort";
import { badName, crumbs, decodePath, encodePath, isText, join, visible } from "../domain/paths";

const ORDERS = { "": "name", "-name": "name, from the end", "-size": "largest first", size: "smallest first", "-changed": "latest first", changed: "oldest first" };
const COLUMNS = ["name", "size", "changed"] as const;
const values = {
  name: (entry: Entry) => entry.name,
  size: (entry: Entry) => (entry.kind === "file" ? entry.size_bytes : null),
  changed: (entry: Entry) => entry.modified_at,
};

type Asking = { readonly what: "folder" } | { readonly what: "rename" | "publish"; readonly entry: Entry } | null;

export function Files({ user }: { user: User }) {
  // Not wouter's own search: it decodes, and an address here may hold bytes that are no text.
  const folder = new URLSearchParams(useSearch()).get("in") ?? "";
  const way = crumbs(folder);
  useTitle(way.length === 0 ? "Files" : visible(way.at(-1)?.name ?? ""));
  return <Folder key={folder} folder={folder} user={user} />;
}

function Folder({ folder, user }: { folder: string; user: User }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState<Asking>(null);
  const [error, setError] = useState<Error | null>(null);
  const now = useNow(60_000);
  const list = useInfiniteQuery({
    queryKey: keys.folder(folder),
    initialPageParam: "",
    queryFn: ({ pageParam }) => spaces.list(folder, pageParam),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  // Of a folder that is gone nothing is shown.
  const there = shows(list);
  const { fetchNextPage, isFetchingNextPage, hasNextPage } = list;
  const [given, change] = useAddress();
  const order = hasNextPage ? "" : wordIn(given.get("sort"), Object.keys(ORDERS), "");
  const entries = useMemo(
    () => sorted((there ? (list.data?.pages ?? []) : []).flatMap((p) => p.entries), sortIn(order, COLUMNS), values),
    [list.data, there, order],
  );
  const more = useCallback(() => {
    if (!isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, isFetchingNextPage]);
  const changed = useCallback(() => client.invalidateQueries({ queryKey: keys.files }), [client]);

  const take = async (found: Found): Promise<void> => {
    setError(null);
    if (found.files.length > 0) startFiles(user.name, folder, found.files, () => changedSoon(changed));
    try {
      for (const path of found.empty) await spaces.makeFolder(join(folder, encodePath(path)));
      if (found.empty.length > 0) await changed();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  const removing = useRef<ReadonlySet<string>>(new Set());
  const remove = async (chosenOnes: readonly Entry[]): Promise<void> => {
    // They stay on screen until the list has come anew: pressed again meanwhile, they are not asked for twice.
    const which = chosenOnes.filter((entry) => !removing.current.has(entry.encoded));
    if (which.length === 0) return;
    const names = new Set(which.map((entry) => entry.encoded));
    removing.current = new Set([...removing.current, ...names]);
    setError(null);
    const ids: string[] = [];
    try {
      for (const entry of which) {
        const id = await spaces.remove(join(folder, entry.encoded), entry.kind === "folder");
        if (id !== null) ids.push(id);
      }
    } catch (problem) {
      setError(problem as Error);
    }
    setChosen(new Set());
    void changed().finally(() => {
      removing.current = new Set([...removing.current].filter((name) => !names.has(name)));
    });
    if (ids.length === 0) return;
    const what = which.length === 1 ? `“${visible(which[0]?.name ?? "")}” is` : `${ids.length} entries are`;
    const undo = async (): Promise<void> => {
      try {
        for (const id of ids) await spaces.restore(id);
        tell("They are back in their old place.");
      } catch (problem) {
        tell(problem instanceof ApiError ? problem.message : String(problem), { bad: true });
      }
      void changed();
    };
    tell(`${what} in the trash.`, { action: { label: "Undo", run: () => void undo() } });
  };
  const marked = entries.filter((e) => chosen.has(e.encoded));

  return (
    <DropZone label={`Drop files and folders here to upload them to ${placeText(folder)}`} onDrop={(found) => void take(found)}>
      <div className="title-row">
        <h1>
          <Way folder={folder} />
        </h1>
        <div className="actions">
          <FileButton main multiple onFiles={(files) => void take(fromInput(files))}>
            Upload files …
          </FileButton>
          <FileButton folder onFiles={(files) => void take(fromInput(files))}>
            Upload a folder …
          </FileButton>
          <button onClick={() => setAsking({ what: "folder" })}>New folder …</button>
          <a className="button" href={spaces.address(folder, true)} download>
            Download as zip
          </a>
          <Link className="button" href="/trash">
            Trash
          </Link>
        </div>
      </div>
      <SpaceBar />
      <FileUploads />
      {error && <Failure error={error} />}
      <Trouble of={list} />
      {list.isPending && <p className="empty">Loading …</p>}
      {there && entries.length === 0 && (
        <Empty>
          {folder === "" ? "Your space is empty." : "This folder is empty."} Drop files and folders on this page, or choose them by a button
          above. Tasks see your space at <code>/root/nfs</code>.
        </Empty>
      )}
      {entries.length > 0 && (
        <>
          <div className="selection">
            <label>
              <input
                type="checkbox"
                checked={marked.length > 0 && marked.length === entries.length}
                onChange={(e) => setChosen(new Set(e.target.checked ? entries.map((x) => x.encoded) : []))}
              />{" "}
              {marked.length === 0
                ? `${entries.length}${hasNextPage ? " and more" : ""} ${entries.length === 1 ? "entry" : "entries"}`
                : `${marked.length} chosen`}
            </label>
            <label title={hasNextPage ? "Only a folder that is shown whole can be sorted: scroll to its end." : undefined}>
              Sort by{" "}
              <select value={order} disabled={hasNextPage} onChange={(e) => change({ sort: e.target.value })}>
                {Object.entries(ORDERS).map(([value, text]) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
            {marked.length === 0 && <span className="narrow">Tick an entry to rename or delete it.</span>}
            {marked.length > 0 && (
              <button className="small" onClick={() => void remove(marked)}>
                Delete these
              </button>
            )}
          </div>
          <FolderTable
            folder={folder}
            entries={entries}
            more={hasNextPage}
            onMore={more}
            chosen={chosen}
            onChosen={setChosen}
            onRename={(entry) => setAsking({ what: "rename", entry })}
            onDelete={(which) => void remove(which)}
            onPublish={(entry) => setAsking({ what: "publish", entry })}
            now={now}
          />
        </>
      )}
      {asking?.what === "folder" && (
        <NameDialog
          title="New folder"
          action="Make the folder"
          onName={async (name) => {
            await spaces.makeFolder(join(folder, encodeURIComponent(name)));
            await changed();
          }}
          onClose={() => setAsking(null)}
        />
      )}
      {asking?.what === "rename" && (
        <NameDialog
          title={`Rename ${visible(asking.entry.name)}`}
          first={asking.entry.name}
          action="Rename"
          onName={async (name) => {
            if (!isText(folder)) throw new Error("A folder on the way has a name that is no text; rename that one from a task first.");
            if (badName(name)) throw new Error(badName(name));
            await spaces.move(join(folder, asking.entry.encoded), decodePath(join(folder, encodeURIComponent(name))));
            await changed();
          }}
          onClose={() => setAsking(null)}
        />
      )}
      {asking?.what === "publish" && (
        <PublishDialog
          path={join(folder, asking.entry.encoded)}
          onDone={(dataset) => {
            setAsking(null);
            go(`/datasets/${dataset.name}`);
          }}
          onClose={() => setAsking(null)}
        />
      )}
    </DropZone>
  );
}

/** Hundreds of files a second are one look at the list. */
let timer: ReturnType<typeof setTimeout> | undefined;
function changedSoon(changed: () => Promise<void>): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    void changed();
  }, 700);
}

const placeText = (folder: string): string => (folder === "" ? "your space" : visible(decodePath(folder)));

function Way({ folder }: { folder: string }) {
  return (
    <nav className="way" aria-label="Folders on the way">
      {folder === "" ? <span>Files</span> : <Link href="/files">Files</Link>}
      {crumbs(folder).map(({ name, path }) => (
        <span key={path}>
          {" / "}
          {path === folder ? <span aria-current="page">{visible(name)}</span> : <Link href={folderHref(path)}>{visible(name)}</Link>}
        </span>
      ))}
    </nav>
  );
}

/** How much of the quota is used. */
export function SpaceBar() {
  const space = useQuery({ queryKey: keys.space, queryFn: spaces.space, refetchInterval: 60_000 });
  if (space.data === undefined || space.data.measured_at === null) return null;
  const { used_bytes: used, quota_bytes: quota, state, sentence } = space.data;
  return (
    <div className="space">
      {quota === null ? (
        <p className="facts">{size(used)} used</p>
      ) : (
        <Meter scarce used={used} of={quota} text={`${size(used)} of ${size(quota)} used`} />
      )}
      {sentence && (
        <p className={state === "full" ? "failure" : "waits"} role="status">
          <Sentence text={sentence} />
        </p>
      )}
    </div>
  );
}
