import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { type Dataset, type Version, datasets } from "../api/datasets";
import { keys } from "../api/events";
import { Empty, State, useNow, useTitle } from "../components/basics";
import { PublishDialog } from "../components/publish-dialog";
import { sharedText } from "../components/share";
import { Moment } from "../components/when";
import { Trouble } from "../components/kept-answer";
import { size } from "../domain/format";
import type { Tone } from "../domain/states";

export const versionTone: Record<Version["state"], Tone> = { publishing: "live", ready: "good", failed: "bad" };

const newest = (dataset: Dataset): Version | undefined => dataset.versions.at(-1);

export function Datasets() {
  useTitle("Datasets");
  const [, go] = useLocation();
  const [text, setText] = useState("");
  const [publishing, setPublishing] = useState(false);
  const q = text.trim();
  const list = useQuery({
    queryKey: [...keys.datasets, q],
    queryFn: () => datasets.list(q),
    placeholderData: (old) => old,
    refetchInterval: (query) =>
      (query.state.data ?? []).some((d) => d.versions.some((v) => v.state === "publishing")) ? 1000 : false,
  });
  const now = useNow(60_000);
  const rows = list.data ?? [];
  return (
    <>
      <div className="title-row">
        <h1>Datasets</h1>
        <div className="filters">
          <input type="search" placeholder="name" aria-label="Search" value={text} onChange={(e) => setText(e.target.value)} />
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
                <th>Name</th>
                <th>Newest version</th>
                <th>Files</th>
                <th>Size</th>
                <th>Published</th>
                <th>By</th>
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
