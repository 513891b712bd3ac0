import type { Job } from "../api/client";
import { Sentence } from "./basics";

/** Why a job ended as it did; of which task that is told, where it is of one. */
export function JobReason({ job }: { job: Pick<Job, "reason" | "reason_task"> }) {
  if (job.reason === null) return null;
  return (
    <>
      {job.reason_task && (
        <>
          <b>{job.reason_task}</b>:{" "}
        </>
      )}
      <Sentence text={job.reason.sentence} />
    </>
  );
}
