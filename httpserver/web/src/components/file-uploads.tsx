import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { keys } from "../api/events";
import { type Batch, batches, dropFiles, pauseFiles, resumeFiles, retryFailed, settleTaken } from "../api/file-uploads";
import { useStore } from "../api/store";
import { uploads } from "../api/uploads";
import { size, span } from "../domain/format";
import { decodePath, visible } from "../domain/paths";
import { remaining } from "../domain/rate";
import { Meter, Sentence, State } from "./basics";

const SHOWN = 8;

const files = (n: number): string => (n === 1 ? "1 file" : `${n} files`);

/** Files on their way from this page, and what was cut before. */
export function FileUploads() {
  const client = useQueryClient();
  const running = useStore(batches);
  const kept = useQuery({
    queryKey: keys.uploads("files"),
    queryFn: () => uploads.list("files"),
    refetchInterval: 20_000,
  });
  const busy = running.some((b) => b.state !== "ended");
  // What was cut before may be whole by now.
  useEffect(() => {
    if (!busy) void client.invalidateQueries({ queryKey: keys.uploads("files") });
  }, [busy, client]);
  const cut = busy ? [] : (kept.data ?? []).filter((u) => u.state === "receiving");
  const discard = (): void => {
    void Promise.all(cut.map((u) => uploads.discard("files", u.id))).finally(() => client.invalidateQueries({ queryKey: keys.uploads("files") }));
  };
  if (running.length === 0 && cut.length === 0) return null;
  return (
    <section className="transfers" aria-label="Uploads">
      {running.map((batch) => (
        <One key={batch.key} batch={batch} />
      ))}
      {cut.length > 0 && (
        <article className="transfer">
          <h3>
            {files(cut.length)} <State state="unfinished" tone="wait" />
          </h3>
          <p className="note">
            {cut
              .slice(0, SHOWN)
              .map((u) => `${visible(u.metadata["path"] ?? u.id)} (${size(u.offset)} of ${size(u.length)})`)
              .join(", ")}
            . To go on where it stopped, upload the same file into the same folder again.
          </p>
          <div className="actions">
            <button className="small" onClick={discard}>
              Discard
            </button>
          </div>
        </article>
      )}
    </section>
  );
}

function One({ batch }: { batch: Batch }) {
  const rest = remaining(batch.sent, batch.bytes, batch.perSecond);
  const speed = batch.perSecond === null ? "" : `, ${size(batch.perSecond)}/s`;
  const where = batch.folder === "" ? "your space" : visible(decodePath(batch.folder));
  const whole = batch.state === "ended";
  const fine = batch.failed.length === 0 && batch.taken.length === 0;
  return (
    <article className="transfer" aria-label={`Upload into ${where}`}>
      <h3>
        {files(batch.files)} into {where}{" "}
        <State
          state={whole ? (fine ? "done" : "ended") : batch.state}
          tone={whole ? (fine ? "good" : "wait") : batch.state === "paused" ? "wait" : "live"}
        />
      </h3>
      {!whole && (
        <Meter
          used={batch.sent}
          of={batch.bytes}
          text={`${batch.done} of ${files(batch.files)}, ${size(batch.sent)} of ${size(batch.bytes)}${speed}${rest === null ? "" : `, ${span(Math.ceil(rest))} left`}`}
        />
      )}
      {batch.trouble && (
        <p className={batch.state === "paused" ? "waits" : "note"} role={batch.state === "paused" ? "alert" : "status"}>
          <Sentence text={batch.trouble} />
        </p>
      )}
      {batch.active.length > 0 && <p className="note one-line">{batch.active.map(visible).join(", ")}</p>}
      {batch.taken.length > 0 && (
        <div className="waits" role="alert">
          <p>
            {batch.taken.length === 1 ? "One name is" : `${batch.taken.length} names are`} there already:{" "}
            {batch.taken
              .slice(0, SHOWN)
              .map((i) => visible(i.path))
              .join(", ")}
            {batch.taken.length > SHOWN && " …"}
          </p>
          <div className="actions">
            <button className="small" onClick={() => settleTaken(batch.key, true)}>
              Replace
            </button>
            <button className="small" onClick={() => settleTaken(batch.key, false)}>
              Keep what is there
            </button>
          </div>
        </div>
      )}
      {batch.failed.length > 0 && (
        <div className="failure" role="alert">
          <ul>
            {batch.failed.slice(0, SHOWN).map((f) => (
              <li key={f.item.path}>
                <b>{visible(f.item.path)}</b>: <Sentence text={f.sentence} />
              </li>
            ))}
          </ul>
          {batch.failed.length > SHOWN && <p>and {batch.failed.length - SHOWN} more.</p>}
          <button className="small" onClick={() => retryFailed(batch.key)}>
            Retry these
          </button>
        </div>
      )}
      <div className="actions">
        {batch.state === "sending" && (
          <button className="small" onClick={() => pauseFiles(batch.key)}>
            Pause
          </button>
        )}
        {batch.state === "paused" && (
          <button className="small" onClick={() => resumeFiles(batch.key)}>
            Resume
          </button>
        )}
        <button className="small quiet" onClick={() => dropFiles(batch.key)}>
          {whole ? "Dismiss" : "Stop the upload"}
        </button>
      </div>
    </article>
  );
}
