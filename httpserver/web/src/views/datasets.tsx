import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { untilAnswered } from "../api/client";
import { type Dataset, type Version, datasets } from "../api/datasets";
import { keys } from "../api/events";
import { SearchField, SortHead, useAddress } from "../components/address";
import { Empty, State, useNow, useTitle } from "../components/basics";
import { PublishDialog } from "../components/publish-dialog";
import { sharedText } from "../components/share";
import { HelpLink } from "../components/help-link";
import { Moment } from "../components/when";
import { Trouble } from "../components/kept-answer";
import { textIn } from "../domain/address";
import { size } from "../domain/format";
import { sortIn, sorted } from "../domain/sort";
import type { Tone } from "../domain/states";

export const versionTone: Record<Version["state"], Tone> = { publishing: "live", ready: "good", failed: "bad" };

const newest = (dataset: Dataset): Version | undefined => dataset.versions.at(-1);

const COLUMNS = ["name", "files", "size", "published", "owner"] as const;
const values = {
  name: (dataset: Dataset) => dataset.name,
  files: (dataset: Dataset) => newest(dataset)?.files,
  size: (dataset: Dataset) => newest(dataset)?.size_bytes,
  published: (dataset: Dataset) => newest(dataset)?.published_at,
  owner: (dataset: Dataset) => dataset.owner,
};

export function Datasets() {
  useTitle("Datasets");
  const [, go] = useLocation();
  const [given, change] = useAddress();
  const text = textIn(given.get("q"));
  const sort = sortIn(given.get("sort"), COLUMNS);
  const head = { sort, onSort: (next: string | null) => change({ sort: next }) };
  const [publishing, setPublishing] = useState(false);
  const q = text.trim();
  const list = useQuery({
    queryKey: [...keys.datasets, q],
    queryFn: () => datasets.list(q),
    placeholderData: (old) => old,
    refetchInterval: (query) =>
      (query.state.data ?? []).some((d) => d.versions.some((v) => v.state === "publishing")) ? 1000 : untilAnswered(query),
  });
  const now = useNow(60_000);
  const rows = sorted(list.data ?? [], sort, values);
  return (
    <>
      <div className="title-row">
        <div className="helped">
          <h1>Datasets</h1>
          <HelpLink topic="data" />
        </div>
        <div className="filters">
          <SearchField placeholder="name" value={text} onText={(typed) => change({ q: typed }, { typed: true })} />
          <button className="main" onClick={() => setPublishing(true)}>
            Publish a folder …
          </button>
        </div>
      </div>
      <p className="facts">
        A dataset is a folder that somebody published. A task that names it can read it at <code>/root/datasets/NAME</code>.
      </p>
      <Trouble of={list} />
      {list.isPending && <p className="empty">Loading …</p>}
      {list.data !== undefined && rows.length === 0 && <Empty>{q ? "No dataset matches." : "There are no datasets yet."}</Empty>}
      {rows.length > 0 && (
        <div className="scroll">
          <table className="wide">
            <thead>
              <tr>
                <SortHead by="name" {...head}>
                  Name
                </SortHead>
                <th>Newest version</th>
                <SortHead by="files" down {...head}>
                  Files
                </SortHead>
                <SortHead by="size" down {...head}>
                  Size
                </SortHead>
                <SortHead by="published" down {...head}>
                  Published
                </SortHead>
                <SortHead by="owner" {...head}>
                  By
                </SortHead>
                <th>Who sees it</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((dataset) => {
                const version = newest(dataset);
                return (
                  <tr key={dataset.name}>
                    <td className="name">
                      <Link href={`/datasets/${dataset.name}`}>{dataset.name}</Link>
                    </td>
                    <td>
                      {version && (
                        <>
                          {version.version} <State state={version.state} tone={versionTone[version.state]} />
                        </>
                      )}
                    </td>
                    <td className="number" data-label="files">
                      {version?.files ?? "–"}
                    </td>
                    <td className="number">{size(version?.size_bytes)}</td>
                    <td className="number"><Moment at={version?.published_at} now={now} /></td>
                    <td data-label="by">{dataset.owner || "an admin"}</td>
                    <td>{sharedText(dataset)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {publishing && (
        <PublishDialog path="" onDone={(dataset) => go(`/datasets/${dataset.name}`)} onClose={() => setPublishing(false)} />
      )}
    </>
  );
}
