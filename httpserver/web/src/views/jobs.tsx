import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { useAct } from "../api/act";
import { type Job, type JobState, type User, api, body, untilAnswered } from "../api/client";
import { keys } from "../api/events";
import { learnNames } from "../api/names";
import { useNodes } from "../api/nodes";
import { ONLY_WHOLE, SearchField, SortHead, useAddress } from "../components/address";
import { Empty, Failure, State, useNow, useTitle } from "../components/basics";
import { GpusHeld } from "../components/bookings";
import { CancelDialog } from "../components/cancel-dialog";
import { FirstSteps } from "../components/first-steps";
import { JobReason } from "../components/reason";
import { Moment } from "../components/when";
import { Trouble } from "../components/kept-answer";
import { textIn, wordIn } from "../domain/address";
import { gpusByJob } from "../domain/bookings";
import { span } from "../domain/format";
import { firstPress } from "../domain/press";
import { sortIn, sorted } from "../domain/sort";
import { type Tone, jobEnded, jobTone, label, taskTone } from "../domain/states";

const states = Object.keys(jobTone) as JobState[];

const PAGE = 50;
/** How often a list that is not shown whole is counted anew. */
const COUNT_MS = 30_000;
const COLUMNS = ["state", "name", "tasks", "gpus", "owner", "submitted", "took"] as const;

const values = (now: number, held: ReadonlyMap<string, number> | null) => ({
  state: (job: Job) => states.indexOf(job.state),
  name: (job: Job) => job.name,
  tasks: (job: Job) => job.task_count,
  gpus: (job: Job) => held?.get(job.id) ?? 0,
  owner: (job: Job) => job.owner,
  took: (job: Job) => (job.ended_at ?? now) - job.submitted_at,
});

/** "128 jobs, 5 running"; nothing where it is not known. */
export function counted(count: { readonly jobs: number; readonly running: number; readonly more: boolean } | null | undefined): string {
  if (!count) return "";
  const number = count.jobs.toLocaleString("en");
  return `${count.more ? "more than " : ""}${number} ${count.jobs === 1 ? "job" : "jobs"}, ${count.running.toLocaleString("en")} running`;
}

export function Jobs({ user }: { user: User }) {
  useTitle("Jobs");
  const client = useQueryClient();
  const [given, change] = useAddress();
  const mine = given.get("of") !== "all";
  const state = wordIn<JobState | "">(given.get("state"), states, "");
  const text = textIn(given.get("q"));
  const sort = sortIn(given.get("sort"), COLUMNS);
  // The server has them by when they came, and gives them either way round.
  const order = sort?.by === "submitted" && !sort.down ? "oldest" : "newest";
  const filters = { owner: mine ? user.name : "", state, q: text.trim(), order } as const;
  const jobs = useInfiniteQuery({
    queryKey: [...keys.jobs, filters],
    initialPageParam: "",
    queryFn: async ({ pageParam }) => {
      const page = await body(
        api.GET("/api/v1/jobs", {
          params: {
            query: {
              limit: PAGE,
              order,
              count: pageParam === "",
              ...(filters.owner ? { owner: filters.owner } : {}),
              ...(filters.state ? { state: [filters.state] } : {}),
              ...(filters.q ? { q: filters.q } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
        }),
      );
      learnNames(client, page?.jobs.map((job) => [job.id, job.name]) ?? []);
      return page;
    },
    getNextPageParam: (page) => page?.next_cursor ?? undefined,
    placeholderData: (old) => old,
    refetchInterval: (query) => (query.state.data?.pages.at(-1)?.next_cursor ? COUNT_MS : untilAnswered(query)),
  });
  const cancel = useAct((id: string) => body(api.POST("/api/v1/jobs/{job}/cancel", { params: { path: { job: id } } })), {
    after: () => client.invalidateQueries({ queryKey: keys.jobs }),
    alone: false,
  });
  const [cancelling, setCancelling] = useState<Job | null>(null);
  const loaded = jobs.data?.pages.flatMap((p) => p?.jobs ?? []) ?? [];
  const held = gpusByJob(useNodes().data);
  const now = useNow(
    1000,
    loaded.some((j) => !jobEnded(j.state)),
  );
  const whole = !jobs.hasNextPage;
  const rows = whole && sort?.by !== "submitted" ? sorted(loaded, sort, values(now, held)) : loaded;
  const onSort = (next: string | null): void => change({ sort: next });
  const head = { sort, onSort, off: whole ? "" : ONLY_WHOLE };

  return (
    <>
      <div className="title-row">
        <h1>Jobs</h1>
        <div className="filters">
          <label>
            <input type="checkbox" checked={mine} onChange={(e) => change({ of: e.target.checked ? null : "all" })} /> only mine
          </label>
          <label>
            State{" "}
            <select value={state} onChange={(e) => change({ state: e.target.value })}>
              <option value="">any</option>
              {states.map((s) => (
                <option key={s} value={s}>
                  {label(s)}
                </option>
              ))}
            </select>
          </label>
          <SearchField placeholder="name or id" value={text} onText={(q) => change({ q }, { typed: true })} />
          <Link href="/submit" className="button main">
            Submit a job
          </Link>
        </div>
      </div>
      <Trouble of={jobs} />
      {cancel.error && <Failure error={cancel.error} />}
      {jobs.isPending && <p className="empty">Loading …</p>}
      {jobs.data !== undefined && rows.length === 0 && mine && !text && !state && <FirstSteps user={user} />}
      {jobs.data !== undefined && rows.length === 0 && !(mine && !text && !state) && (
        <Empty>
          {text || state ? "No job matches." : "There are no jobs yet."}{" "}
          <Link href="/submit">Submit one</Link>: a command in a container image, or several that need each other.
        </Empty>
      )}
      {rows.length > 0 && (
        <p className="facts" role="status">
          {counted(whole ? { jobs: rows.length, running: rows.filter((j) => j.state === "RUNNING").length, more: false } : jobs.data?.pages[0]?.count)}
        </p>
      )}
      {rows.length > 0 && (
        <div className="scroll">
          <table className="wide jobs">
            <thead>
              <tr>
                <SortHead by="state" {...head}>
                  State
                </SortHead>
                <SortHead by="name" {...head}>
                  Name
                </SortHead>
                <SortHead by="tasks" down {...head}>
                  Tasks
                </SortHead>
                <SortHead by="gpus" down title="GPUs that its running tasks hold now" {...head}>
                  GPUs now
                </SortHead>
                <SortHead by="owner" {...head}>
                  Owner
                </SortHead>
                <SortHead by="submitted" sort={sort} onSort={onSort}>
                  Submitted
                </SortHead>
                <SortHead by="took" down {...head}>
                  Took
                </SortHead>
                <th>Id</th>
                <th>
                  <span className="hidden">Actions</span>
                </th>
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
                    {job.reason && <div className="why">
                        <JobReason job={job} />
                      </div>}
                  </td>
                  <td>
                    <TaskCounts job={job} />
                  </td>
                  <td className="number" data-label="GPUs">
                    <GpusHeld count={held === null ? null : (held.get(job.id) ?? 0)} />
                  </td>
                  <td>{job.owner}</td>
                  <td className="number"><Moment at={job.submitted_at} now={now} /></td>
                  <td className="number" data-label="took">
                    {span((job.ended_at ?? now) - job.submitted_at)}
                  </td>
                  <td>
                    <code>{job.id}</code>
                  </td>
                  <td className="row-action">
                    {!jobEnded(job.state) && (user.admin || job.owner === user.name) && (
                      <button
                        className="small"
                        disabled={job.state === "STOPPING" || cancel.runs(job.id)}
                        onClick={(e) => {
                          // Under the second click there may be another job by now.
                          if (!firstPress(e)) return;
                          if (job.owner === user.name) cancel.run(job.id);
                          else setCancelling(job);
                        }}
                      >
                        Cancel{job.owner !== user.name && " …"}
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {cancelling && (
        <CancelDialog
          what={cancelling.name}
          owner={cancelling.owner}
          onCancel={() => cancel.run(cancelling.id)}
          onClose={() => setCancelling(null)}
        />
      )}
      {jobs.hasNextPage && (
        <button onClick={() => void jobs.fetchNextPage()} disabled={jobs.isFetchingNextPage}>
          More
        </button>
      )}
    </>
  );
}

const toneOrder: readonly Tone[] = ["good", "bad", "live", "wait", "muted"];

/** How many of the tasks are how far, as a bar. */
export function TaskCounts({ job }: { job: Job }) {
  const found = Object.entries(job.tasks_by_state) as [keyof typeof taskTone, number][];
  const counts = found.sort(([a], [b]) => toneOrder.indexOf(taskTone[a]) - toneOrder.indexOf(taskTone[b]));
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
