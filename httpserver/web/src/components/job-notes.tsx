/** What stands above a job that is not all there: it was deleted while it was read, or lacks the task of the address. */
import { createContext, useMemo, useState } from "react";
import { Link } from "wouter";

import { ApiError, type JobDetail } from "../api/client";
import { exactly, iso } from "../domain/starts";
import { nearest } from "../domain/nearest";
import { visible } from "../domain/paths";
import { Sentence } from "./basics";

/** Whether the job on the page is deleted: nothing more of it can be asked for. */
export const JobGone = createContext(false);

/** The answer that a job is there no more; an account that may not see it any more is another matter. */
export const isGone = (error: unknown): error is ApiError => error instanceof ApiError && (error.status === 404 || error.status === 410) && error.slug === "not-found";

/** What was read stays on the page: whoever reads a log has not asked for its end. */
export function GoneBanner({ error, at }: { error: ApiError; at: number }) {
  // When it was noticed first; later questions have the same answer.
  const [noticed] = useState(at);
  return (
    <div className="failure" role="alert">
      <b>This job was deleted</b> (at{" "}
      <time dateTime={iso(noticed)}>{exactly(noticed, noticed)}</time>); what you see is from before. <Sentence text={error.message} />
    </div>
  );
}

/** An address of a task that the job does not have. */
export function NoSuchTask({ job, wanted }: { job: JobDetail; wanted: string }) {
  const near = useMemo(() => nearest(wanted, job.tasks.map((task) => task.name)), [job.tasks, wanted]);
  return (
    <div className="failure" role="alert">
      Job {visible(job.name)} has no task '{visible(wanted)}'. {near.length > 0 && "The nearest names: "}
      {near.map((name, i) => (
        <span key={name}>
          {i > 0 && ", "}
          <Link href={`/jobs/${job.id}/${encodeURIComponent(name)}`}>{name}</Link>
        </span>
      ))}
      {near.length > 0 && "."}
    </div>
  );
}
