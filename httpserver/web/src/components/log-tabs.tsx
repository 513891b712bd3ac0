import { useQuery } from "@tanstack/react-query";
import { useContext, useEffect, useState } from "react";

import type { Attempt, LogStream } from "../api/client";
import { keys } from "../api/events";
import { logSize } from "../api/log";
import { size } from "../domain/format";
import { STREAMS, type Sizes, firstStream, sizesOf, streamText } from "../domain/streams";
import { JobGone } from "./job-notes";
import { LogView } from "./log-view";

/** How often the sizes of logs that grow are asked for. */
const SIZES_MS = 10_000;

/** The logs of one attempt in tabs. A mark on a tab says that there is something in it that was not seen yet. */
export function LogTabs({
  job,
  task,
  number,
  attempt,
  chosen,
  mayRead,
  onChoose,
}: {
  job: string;
  task: string;
  number: number;
  /** What is known of it. */
  attempt: Attempt | undefined;
  /** Null: the log that holds the end. */
  chosen: LogStream | null;
  mayRead: boolean;
  onChoose: (stream: LogStream) => void;
}) {
  const ended = attempt !== undefined && attempt.ended_at !== null;
  // Of a deleted job every log would be empty, and another one would come in the place of the one that is read.
  const gone = useContext(JobGone);
  const asked = useQuery({
    queryKey: keys.logSizes(job, task, number, ended),
    enabled: mayRead && !gone,
    refetchInterval: ended ? false : SIZES_MS,
    retry: false,
    queryFn: async ({ signal }): Promise<Sizes> => {
      const ask = (stream: LogStream): Promise<number | null> => logSize({ job, task, attempt: number, stream }, signal);
      const [stdout, stderr, platform] = await Promise.all([ask("stdout"), ask("stderr"), ask("platform")]);
      return sizesOf({ stdout, stderr, platform });
    },
  });
  // What the attempt wrote is known at its end, also where its log was removed since.
  const sizes = sizesOf({
    stdout: ended ? attempt.stdout_bytes : (asked.data?.stdout ?? null),
    stderr: ended ? attempt.stderr_bytes : (asked.data?.stderr ?? null),
    platform: asked.data?.platform ?? null,
  });
  const stream = chosen ?? firstStream(attempt, sizes);
  const [seen, setSeen] = useState<Partial<Record<LogStream, number>>>({});
  const { stdout, stderr } = sizes;
  useEffect(() => {
    const out = stream === "stdout" || stream === "both";
    const err = stream === "stderr" || stream === "both";
    setSeen((old) => ({ stdout: out ? (stdout ?? 0) : (old.stdout ?? 0), stderr: err ? (stderr ?? 0) : (old.stderr ?? 0) }));
  }, [stream, stdout, stderr]);

  return (
    <>
      <div className="tabs" role="tablist" aria-label="Logs">
        {STREAMS.map((one) => {
          const bytes = sizes[one];
          const unseen = one !== stream && (one === "stdout" || one === "stderr") && (bytes ?? 0) > (seen[one] ?? 0);
          return (
            <button key={one} role="tab" aria-selected={one === stream} onClick={() => onChoose(one)}>
              {unseen && (
                <span className="unseen" title="There is something that you have not seen yet">
                  <span aria-hidden="true">●</span>
                  <span className="hidden">new: </span>
                </span>
              )}
              {streamText[one]}
              {bytes !== null && <small> {bytes === 0 ? "empty" : size(bytes)}</small>}
            </button>
          );
        })}
      </div>
      <LogView
        place={{ job, task, attempt: number, stream }}
        expected={ended && stream !== "platform" ? sizes[stream] : null}
        key={`${number}/${stream}`}
      />
    </>
  );
}
