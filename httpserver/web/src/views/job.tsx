import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";

import { useAct } from "../api/act";
import { type JobDetail, type Task, type User, api, body, untilAnswered } from "../api/client";
import { keys, mergeTask } from "../api/events";
import { learnNames } from "../api/names";
import { Failure, State, useNow, useTitle } from "../components/basics";
import { CancelDialog } from "../components/cancel-dialog";
import { Dag } from "../components/dag";
import { HelpLink } from "../components/help-link";
import { GoneBanner, JobGone, NoSuchTask, isGone } from "../components/job-notes";
import { KeptButtons, keptSentence } from "../components/kept";
import { JobReason } from "../components/reason";
import { type Action, TaskPanel } from "../components/task-panel";
import { TaskTable } from "../components/task-table";
import { Moment } from "../components/when";
import { From, Trouble, shows } from "../components/kept-answer";
import { span } from "../domain/format";
import { type Known, keepTasks } from "../domain/known";
import { firstPress } from "../domain/press";
import { chosenIn, taskAddress } from "../domain/streams";
import { jobEnded, jobTone, label, taskEnded } from "../domain/states";
import { TaskCounts } from "./jobs";

/** Past so many tasks a job is a heavy answer. */
const MANY_TASKS = 500;

/** An act on the job, or on one of its tasks. */
interface Wanted {
  readonly action: Action;
  readonly task?: string;
}

/** What events don't bring. */
const pick = ({ attempts, place, waits }: Task): Pick<Task, "attempts" | "place" | "waits"> => ({ attempts, place, waits });

export function JobView({ id, task: chosen, user }: { id: string; task?: string; user: User }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const { stream } = chosenIn(useSearch());
  const job = useQuery({
    queryKey: keys.job(id),
    queryFn: async () => {
      let fresh = (await body(api.GET("/api/v1/jobs/{job}", { params: { path: { job: id } } }))) as JobDetail;
      // An answer that was on its way while events brought newer states would put the old ones back.
      for (let tries = 0; tries < 3 && fresh.version < (client.getQueryData<JobDetail>(keys.job(id))?.version ?? 0); tries++) {
        fresh = (await body(api.GET("/api/v1/jobs/{job}", { params: { path: { job: id } } }))) as JobDetail;
      }
      learnNames(client, [[fresh.id, fresh.name]]);
      const at = (client.getQueryState(keys.job(id))?.dataUpdatedAt ?? 0) / 1000;
      return keepTasks(client.getQueryData<Known<JobDetail>>(keys.job(id)), fresh, at);
    },
    // Places in the queue and attempts of the long run come with a look now and then; states come by events.
    refetchInterval: (query) => {
      const known = query.state.data;
      if (known === undefined || jobEnded(known.state)) return untilAnswered(query);
      return known.tasks.length > MANY_TASKS ? 60_000 : 10_000;
    },
  });
  // In a large job the whole is asked for seldom; the task that is looked at is asked for by itself.
  useQuery({
    queryKey: keys.task(id, chosen ?? ""),
    enabled: chosen !== undefined && job.data !== undefined && !isGone(job.error) && job.data.tasks.length > MANY_TASKS && job.data.tasks.some((t) => t.name === chosen),
    refetchInterval: 10_000,
    queryFn: async () => {
      const fresh = await body(api.GET("/api/v1/jobs/{job}/tasks/{task}", { params: { path: { job: id, task: chosen ?? "" } } }));
      if (fresh !== undefined) {
        client.setQueryData<JobDetail>(
          keys.job(id),
          (old) =>
            old && {
              ...old,
              tasks: old.tasks.map((t) => (t.name === fresh.task.name ? { ...mergeTask(t, fresh.task), ...(fresh.missing.length === 0 ? pick(fresh.task) : {}) } : t)),
            },
        );
      }
      return fresh ?? null;
    },
  });
  useTitle(job.data ? `${job.data.name}: ${label(job.data.state)}` : id);
  const live = job.data !== undefined && !jobEnded(job.data.state);
  const now = useNow(1000, live);

  const act = useAct<Wanted, unknown>(
    ({ action, task }) =>
      task === undefined
        ? body(api.POST(`/api/v1/jobs/{job}/${action}`, { params: { path: { job: id } } }))
        : body(api.POST(`/api/v1/jobs/{job}/tasks/{task}/${action}`, { params: { path: { job: id, task } } })),
    { after: () => client.invalidateQueries({ queryKey: keys.job(id) }) },
  );
  const [cancelling, setCancelling] = useState<Wanted | null>(null);

  // The same function as long as it does the same: the graph isn't drawn anew each second.
  const choose = useCallback((name: string): void => go(taskAddress(id, name, { stream }, window.location.search), { replace: true }), [go, id, stream]);

  if (job.isPending) return <p>Loading …</p>;
  const gone = isGone(job.error) ? job.error : null;
  if (job.data === undefined || !(shows(job) || gone !== null)) return <Trouble of={job} />;
  const detail = job.data;
  const task = detail.tasks.find((t) => t.name === chosen) ?? (detail.tasks.length === 1 ? detail.tasks[0] : undefined);
  const failed = detail.tasks.some((t) => taskEnded(t.state) && t.state !== "SUCCEEDED");
  const own = user.admin || detail.owner === user.name;
  const acts = own && gone === null;
  const press = (wanted: Wanted): void => {
    if (wanted.action === "cancel" && detail.owner !== user.name) setCancelling(wanted);
    else act.run(wanted);
  };
  /** Of a button of the job as a whole. */
  const pressed = (action: Action) => (event: { readonly detail: number }) => {
    if (firstPress(event)) press({ action });
  };
  const waiting = detail.tasks.some((t) => t.state === "BLOCKED" || t.state === "QUEUED");

  return (
    <JobGone value={gone !== null}>
      {gone !== null && <GoneBanner error={gone} at={job.errorUpdatedAt / 1000} />}
      {chosen !== undefined && !detail.tasks.some((t) => t.name === chosen) && <NoSuchTask job={detail} wanted={chosen} />}
      <div className="title-row">
        <div>
          <h1>
            {detail.name} <State state={detail.state} tone={jobTone[detail.state]} />
            {detail.held && <span className="state wait">held</span>}
          </h1>
          <p className="facts">
            <code>{detail.id}</code> · by {detail.owner} · {detail.priority} priority · submitted <Moment at={detail.submitted_at} now={now} />
            {" · "}
            {detail.ended_at === null ? `for ${span(now - detail.submitted_at)}` : `took ${span(detail.ended_at - detail.submitted_at)}`}
            {keptSentence(detail, now) !== "" && (
              <>
                {` · ${keptSentence(detail, now)}`}
                <HelpLink topic="retention" />
              </>
            )}
          </p>
        </div>
        <div className="actions">
          {acts && live && (
            <button disabled={act.busy || detail.state === "STOPPING"} onClick={pressed("cancel")}>
              Cancel{detail.owner !== user.name && " …"}
            </button>
          )}
          {acts && failed && (
            <button
              disabled={act.busy}
              onClick={pressed("retry")}
              title="Run failed, cancelled and skipped tasks again"
            >
              Retry
            </button>
          )}
          {acts && live && waiting && !detail.held && (
            <button disabled={act.busy} onClick={pressed("hold")} title="Keep what waits from starting">
              Hold
            </button>
          )}
          {acts && live && detail.held && (
            <button disabled={act.busy} onClick={pressed("release")}>
              Release
            </button>
          )}
          {acts && (
            <>
              <Link href={`/submit/${id}`} className="button">
                Clone
              </Link>
              <a className="button" href={`/api/v1/jobs/${id}/logs.zip`} download>
                All logs
              </a>
              <KeptButtons job={detail} owner={detail.owner === user.name} />
            </>
          )}
        </div>
      </div>
      {gone === null && <Trouble of={job} />}
      {act.error && <Failure error={act.error} />}
      {detail.reason && detail.reason_task !== task?.name && (
        <p className="reason" role="status">
          <JobReason job={detail} />
        </p>
      )}
      {detail.task_count > 1 && (
        <p className="facts">
          <TaskCounts job={detail} /> {counted(detail)}
        </p>
      )}
      {detail.notices?.map((sentence) => (
        <p className="note" key={sentence}>
          {sentence}
        </p>
      ))}
      {detail.missing.map((m) => (
        <p className="note" key={m.service}>
          {m.sentence} {detail.known_at !== undefined && <From at={detail.known_at} />}
        </p>
      ))}
      {detail.tasks.length > 1 && <Dag key={id} job={id} tasks={detail.tasks} edges={detail.edges} chosen={task?.name} onChoose={choose} />}
      <div className={task ? "split" : ""}>
        {detail.tasks.length > 1 && <TaskTable tasks={detail.tasks} chosen={task?.name} onChoose={choose} now={now} />}
        {task && (
          <TaskPanel
            key={task.name}
            job={id}
            task={task}
            now={now}
            busy={act.busy}
            mayAct={acts && detail.tasks.length > 1}
            mayExtend={own}
            admin={user.admin}
            foreign={detail.owner !== user.name}
            onAct={(action) => press({ action, task: task.name })}
          />
        )}
      </div>
      {cancelling && (
        <CancelDialog
          what={cancelling.task === undefined ? detail.name : `${cancelling.task} in ${detail.name}`}
          owner={detail.owner}
          onCancel={() => act.run(cancelling)}
          onClose={() => setCancelling(null)}
        />
      )}
      {detail.tasks.length > 1 && !task && <p className="hint">Choose a task to see its attempts and its log.</p>}
    </JobGone>
  );
}

const counted = (job: JobDetail): string =>
  Object.entries(job.tasks_by_state)
    .map(([state, n]) => `${n} ${label(state)}`)
    .join(", ");
