import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { type Job, type JobState, type User, api, body } from "../api/client";
import { keys } from "../api/events";
import { Empty, Failure, State, useNow, useTitle } from "../components/basics";
import { moment, span } from "../domain/format";
import { jobEnded, jobTone, label, taskTone } from "../domain/states";

const states = Object.keys(jobTone) as JobState[];

export function Jobs({ user }: { user: User }) {
  useTitle("Jobs");
  const [mine, setMine] = useState(true);
  const [state, setState] = useState<JobState | "">("");
  const [text, setText] = useState("");
  const filters = { owner: mine ? user.name : "", state, q: text.trim() };
  const jobs = useInfiniteQuery({
    queryKey: [...keys.jobs, filters],
    initialPageParam: "",
    queryFn: async ({ pageParam }) =>
      body(
        api.GET("/api/v1/jobs", {
          params: {
            query: {
              limit: 50,
              ...(filters.owner ? { owner: filters.owner } : {}),
              ...(filters.state ? { state: [filters.state] } : {}),
              ...(filters.q ? { q: filters.q } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
        }),
      ),
    getNextPageParam: (page) => page?.next_cursor ?? undefined,
    placeholderData: (old) => old,
  });
  const rows = jobs.data?.pages.flatMap((p) => p?.jobs ?? []) ?? [];
  const now = useNow(1000, rows.some((j) => !jobEnded(j.state)));

  return (
    <>
      <div className="title-row">
        <h1>Jobs</h1>
        <div className="filters">
          <label>
            <input type="checkbox" checked={mine} onChange={(e) => setMine(e.target.checked)} /> only mine
          </label>
          <label>
            State{" "}
            <select value={state} onChange={(e) => setState(e.target.value as JobState | "")}>
              <option value="">any</option>
              {states.map((s) => (
                <option key={s} value={s}>
                  {label(s)}
                </option>
              ))}
            </select>
          </label>
          <input type="search" placeholder="name or id" aria-label="Search" value={text} onChange={(e) => setText(e.target.value)} />
          <Link href="/submit" className="button main">
            Submit a job
          </Link>
        </div>
      </div>
      {jobs.isError && <Failure error={jobs.error} again={() => void jobs.refetch()} />}
      {jobs.isSuccess && rows.length === 0 && (
        <Empty>
          {text || state ? "No job matches." : "No jobs yet."} <Link href="/submit">Submit one.</Link>
        </Empty>
      )}
      {rows.length > 0 && (
        <table className="wide">
          <thead>
            <tr>
              <th>State</th>
              <th>Name</th>
              <th>Tasks</th>
              <th>Owner</th>
              <th>Submitted</th>
              <th>Took</th>
              <th>Id</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((job) => (
              <tr key={job.id}>
                <td>
                  <State state={job.state} tone={jobTone[job.state]} />
                  {job.held && <span className="state wait">held</span>}
                </td>
                <td className="name">
                  <Link href={`/jobs/${job.id}`}>{job.name}</Link>
                  {job.reason && <div className="why">{`${job.reason_task}: ${job.reason.sentence}`}</div>}
                </td>
                <td>
                  <TaskCounts job={job} />
                </td>
                <td>{job.owner}</td>
                <td>{moment(job.submitted_at, now)}</td>
                <td className="number">{span((job.ended_at ?? now) - job.submitted_at)}</td>
                <td>
                  <code>{job.id}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {jobs.hasNextPage && (
        <button onClick={() => void jobs.fetchNextPage()} disabled={jobs.isFetchingNextPage}>
          More
        </button>
      )}
    </>
  );
}

/** How many of the tasks are how far, as a bar. */
function TaskCounts({ job }: { job: Job }) {
  const counts = Object.entries(job.tasks_by_state) as [keyof typeof taskTone, number][];
  const done = job.tasks_by_state.SUCCEEDED ?? 0;
  const text = counts.map(([s, n]) => `${n} ${label(s)}`).join(", ");
  return (
    <span className="counts" title={text}>
      <span className="count-bar" aria-hidden="true">
        {counts.map(([s, n]) => (
          <span key={s} className={`part ${taskTone[s]}`} style={{ flexGrow: n }} />
        ))}
      </span>
      {done}/{job.task_count}
    </span>
  );
}
