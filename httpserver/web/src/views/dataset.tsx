import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { type User, untilAnswered } from "../api/client";
import { type Version, datasets } from "../api/datasets";
import { keys } from "../api/events";
import type { Change } from "../api/market";
import { Meter, Sentence, State, useNow, useTitle } from "../components/basics";
import { DeleteDialog } from "../components/delete-dialog";
import { Description } from "../components/description";
import { PublishDialog } from "../components/publish-dialog";
import { ShareDialog, sharedText } from "../components/share";
import { tell } from "../components/toasts";
import { Moment } from "../components/when";
import { Trouble, shows } from "../components/kept-answer";
import { takeIntoDraft } from "../domain/take";
import { moment, size } from "../domain/format";
import { short } from "../domain/image-name";
import { versionTone } from "./datasets";

const methodText: Record<Version["method"], string> = {
  reflink: "linked (shared blocks)",
  hardlink: "linked (shared files)",
  copy: "copied",
  "": "–",
};

export function DatasetView({ name, user }: { name: string; user: User }) {
  useTitle(name);
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asking, setAsking] = useState<"share" | "delete" | "publish" | Version | null>(null);
  const now = useNow(30_000);
  const dataset = useQuery({
    queryKey: keys.dataset(name),
    queryFn: () => datasets.show(name),
    refetchInterval: (query) => (query.state.data?.versions.some((v) => v.state === "publishing") ? 700 : untilAnswered(query)),
  });
  const change = useMutation({
    mutationFn: (part: Change) => datasets.change(name, part),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.datasets }),
  });
  if (dataset.isPending) return <p>Loading …</p>;
  if (dataset.data === undefined || !shows(dataset)) return <Trouble of={dataset} />;
  const detail = dataset.data;
  const versions = [...detail.versions].reverse();
  const ready = versions.find((v) => v.state === "ready");
  const gone = (text: string, all: boolean): void => {
    setAsking(null);
    tell(text);
    if (all) go("/datasets");
    void client.invalidateQueries({ queryKey: keys.datasets });
  };
  return (
    <>
      <Trouble of={dataset} />
      <div className="title-row">
        <div>
          <h1>{detail.name}</h1>
          <p className="facts">
            {detail.owner ? `by ${detail.owner}` : "added by an admin"} · {sharedText(detail)} · read-only at <code>/root/datasets/{detail.name}</code>
          </p>
        </div>
        <div className="actions">
          {ready && (
            <button
              className="main"
              onClick={() => {
                takeIntoDraft(user.name, { dataset: detail.name });
                go("/submit");
              }}
            >
              Use in a job
            </button>
          )}
          {detail.may_change && (
            <>
              <button onClick={() => setAsking("publish")}>New version …</button>
              <button onClick={() => setAsking("share")}>Share …</button>
              <button onClick={() => setAsking("delete")}>Delete …</button>
            </>
          )}
        </div>
      </div>
      <Description text={detail.description} onSave={detail.may_change ? (description) => change.mutateAsync({ description }) : null} />
      <div className="scroll">
        <table className="wide" aria-label="Versions">
          <thead>
            <tr>
              <th>Version</th>
              <th>State</th>
              <th>Files</th>
              <th>Size</th>
              <th>Stored as</th>
              <th>Checksum</th>
              <th>Published</th>
              <th>
                <span className="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {versions.map((version) => (
              <tr key={version.version}>
                <td>{`${detail.name}@${version.version}`}</td>
                <td>
                  <State state={version.state} tone={versionTone[version.state]} />
                  {version.state === "publishing" && (
                    <Meter used={version.progress} of={1} text={`${Math.floor(100 * (version.progress ?? 0))} %`} />
                  )}
                  {version.problem && (
                    <p className="why">
                      <Sentence text={version.problem} />
                    </p>
                  )}
                  {version.live_jobs.length > 0 && (
                    <p className="why">
                      in use by{" "}
                      {version.live_jobs.map((job) => (
                        <Link key={job} className="chip-link" href={`/jobs/${job}`}>
                          {job}
                        </Link>
                      ))}
                    </p>
                  )}
                </td>
                <td className="number" data-label="files">
                  {version.files ?? "–"}
                </td>
                <td className="number">{size(version.size_bytes)}</td>
                <td>{methodText[version.method]}</td>
                <td>
                  {version.checksum ? (
                    <a href={datasets.checksums(detail.name, version.version)} download={`${detail.name}-${version.version}.sha256`} title={version.checksum}>
                      <code>{short(version.checksum)}</code>
                    </a>
                  ) : (
                    "–"
                  )}
                </td>
                <td className="number"><Moment at={version.published_at} now={now} /></td>
                <td className="row-action">
                  {detail.may_change && versions.length > 1 && version.state !== "publishing" && (
                    <button className="small" aria-label={`Delete version ${version.version}`} onClick={() => setAsking(version)}>
                      Delete …
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="facts">
        {detail.used_by.length === 0
          ? "No job has used it yet."
          : `Used by ${detail.used_by.map((use) => `${use.account} (${use.jobs} job${use.jobs === 1 ? "" : "s"}, last ${moment(use.last_used_at, now)})`).join(", ")}.`}
      </p>
      {asking === "share" && (
        <ShareDialog what={detail.name} of={detail} onSave={(part) => change.mutateAsync(part)} onClose={() => setAsking(null)} />
      )}
      {asking === "publish" && (
        <PublishDialog
          path=""
          name={detail.name}
          onDone={() => {
            setAsking(null);
            void dataset.refetch();
          }}
          onClose={() => setAsking(null)}
        />
      )}
      {asking === "delete" && (
        <DeleteDialog
          what={detail.name}
          jobs={versions.flatMap((v) => v.live_jobs)}
          onDelete={{ now: () => datasets.remove(name, false), wait: () => datasets.remove(name, true) }}
          onDone={() => gone(`${detail.name} is deleted.`, true)}
          onClose={() => setAsking(null)}
        >
          <p>{versions.length === 1 ? "Its one version goes" : `Its ${versions.length} versions go`} with it. The folder that was published stays.</p>
        </DeleteDialog>
      )}
      {typeof asking === "object" && asking !== null && (
        <DeleteDialog
          what={`${detail.name}@${asking.version}`}
          jobs={asking.live_jobs}
          onDelete={{
            now: () => datasets.remove(name, false, asking.version),
            wait: () => datasets.remove(name, true, asking.version),
          }}
          onDone={() => gone(`${detail.name}@${asking.version} is deleted.`, false)}
          onClose={() => setAsking(null)}
        />
      )}
    </>
  );
}
