/** Until when an ended job is kept; its owner pins or deletes it. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { useAct } from "../api/act";
import { type JobDetail, api, body } from "../api/client";
import { keys } from "../api/events";
import { moment } from "../domain/format";
import { firstPress } from "../domain/press";
import { jobEnded } from "../domain/states";
import { DeleteDialog } from "./delete-dialog";

export function keptSentence(job: JobDetail, now: number): string {
  if (job.pinned === true) return "pinned: kept until it is unpinned";
  if (job.kept_until === null || job.kept_until === undefined) return "";
  return job.kept_until <= now ? "its time is over: it is removed soon" : `kept until ${moment(job.kept_until, now)}`;
}

export function KeptButtons({ job, owner }: { job: JobDetail; owner: boolean }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asking, setAsking] = useState(false);
  const pin = useAct<boolean, unknown>(
    (wanted) =>
      wanted
        ? body(api.POST("/api/v1/jobs/{job}/pin", { params: { path: { job: job.id } } }))
        : body(api.POST("/api/v1/jobs/{job}/unpin", { params: { path: { job: job.id } } })),
    { after: () => client.invalidateQueries({ queryKey: keys.job(job.id) }) },
  );
  const pinned = job.pinned === true;
  return (
    <>
      <button
        disabled={pin.busy}
        title={pinned ? "Let the rules of retention count for it again" : "Keep it until it is unpinned"}
        onClick={(event) => {
          if (firstPress(event)) pin.run(!pinned);
        }}
      >
        {pinned ? "Unpin" : "Pin"}
      </button>
      {pin.error && (
        <span className="failure" role="alert">
          {pin.error.message}
        </span>
      )}
      {jobEnded(job.state) && !pinned && (
        <button
          onClick={(event) => {
            if (firstPress(event)) setAsking(true);
          }}
        >
          Delete …
        </button>
      )}
      {asking && (
        <DeleteDialog
          what={`the job ${job.name}`}
          jobs={[]}
          onDelete={{ now: () => body(api.DELETE("/api/v1/jobs/{job}", { params: { path: { job: job.id } } })), wait: null }}
          onDone={() => {
            void client.invalidateQueries({ queryKey: keys.jobs });
            go("/jobs");
          }}
          onClose={() => setAsking(false)}
        >
          <p>
            Its logs, its job file and what is known of its tasks go for good. What it used stays in the usage by day.
            {!owner && ` It belongs to ${job.owner}.`}
          </p>
        </DeleteDialog>
      )}
    </>
  );
}
