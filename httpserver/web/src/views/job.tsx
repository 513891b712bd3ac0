import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import { Link, useLocation } from "wouter";

import { type JobDetail, type LogStream, type Task, type User, api, body } from "../api/client";
import { keys, mergeTask } from "../api/events";
import { Failure, Problems, Sentence, State, useNow, useTitle } from "../components/basics";
import { Dag } from "../components/dag";
import { LogView } from "../components/log-view";
import { Phases } from "../components/phases";
import { TaskTable } from "../components/task-table";
import { moment, size, span } from "../domain/format";
import { short } from "../domain/image-name";
import { MAX_DRAWN } from "../domain/graph";
import { attemptTone, jobEnded, jobTone, label, taskEnded, taskTone } from "../domain/states";
import { TaskCounts } from "./jobs";

/** Past so many tasks a job is a heavy answer. */
const MANY_TASKS = 500;

/** What events don't bring. */
const pick = ({ attempts, place, waits }: Task): Pick<Task, "attempts" | "place" | "waits"> => ({ attempts, place, waits });

type Action = "cancel" | "retry" | "hold" | "release";

export function JobView({ id, task: chosen, user }: { id: string; task?: string; user: User }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const job = useQuery({
    queryKey: keys.job(id),
    queryFn: async () => {
      let fresh = (await body(api.GET("/api/v1/jobs/{job}", { params: { path: { job: id } } }))) as JobDetail;
      // An answer that was on its way while events brought newer states would put the old ones back.
      for (let tries = 0; tries < 3 && fresh.version < (client.getQueryData<JobDetail>(keys.job(id))?.version ?? 0); tries++) {
        fresh = (await body(api.GET("/api/v1/jobs/{job}", { params: { path: { job: id } } }))) as JobDetail;
      }
      return fresh;
    },
    // Places in the queue and attempts of the long run come with a look now and then; states come by events.
    refetchInterval: (query) => {
      const known = query.state.data;
      if (known === undefined || jobEnded(known.state)) return false;
      return known.tasks.length > MANY_TASKS ? 60_000 : 10_000;
    },
  });
  // In a large job the whole is asked for seldom; the task that is looked at is asked for by itself.
  useQuery({
    queryKey: keys.task(id, chosen ?? ""),
    enabled: chosen !== undefined && job.data !== undefined && job.data.tasks.length > MANY_TASKS,
    refetchInterval: 10_000,
    queryFn: async () => {
      const fresh = await body(api.GET("/api/v1/jobs/{job}/tasks/{task}", { params: { path: { job: id, task: chosen ?? "" } } }));
      if (fresh !== undefined) {
        client.setQueryData<JobDetail>(
          keys.job(id),
          (old) =>
            old && {
              ...old,
              tasks: old.tasks.map((t) => (t.name === fresh.task.name ? { ...mergeTask(t, fresh.task), ...pick(fresh.task) } : t)),
            },
        );
      }
      return fresh ?? null;
    },
  });
  useTitle(job.data ? `${job.data.name}: ${label(job.data.state)}` : id);
  const live = job.data !== undefined && !jobEnded(job.data.state);
  const now = useNow(1000, live);

  const act = useMutation({
    mutationFn: async ({ action, task }: { action: Action; task?: string }) => {
      const path = { job: id, task: task ?? "" };
      if (task === undefined) {
        return body(api.POST(`/api/v1/jobs/{job}/${action}`, { params: { path: { job: id } } }));
      }
      return body(api.POST(`/api/v1/jobs/{job}/tasks/{task}/${action}`, { params: { path } }));
    },
    onSettled: () => client.invalidateQueries({ queryKey: keys.job(id) }),
  });

  if (job.isPending) return <p>Loading …</p>;
  if (job.isError) return <Failure error={job.error} again={() => void job.refetch()} />;
  const detail = job.data;
  const task = detail.tasks.find((t) => t.name === chosen) ?? (detail.tasks.length === 1 ? detail.tasks[0] : undefined);
  const choose = (name: string): void => go(`/jobs/${id}/${encodeURIComponent(name)}`, { replace: true });
  const failed = detail.tasks.some((t) => taskEnded(t.state) && t.state !== "SUCCEEDED");
  const own = user.admin || detail.owner === user.name;
  const waiting = detail.tasks.some((t) => t.state === "BLOCKED" || t.state === "QUEUED");

  return (
    <>
      <div className="title-row">
        <div>
          <h1>
            {detail.name} <State state={detail.state} tone={jobTone[detail.state]} />
            {detail.held && <span className="state wait">held</span>}
          </h1>
          <p className="facts">
            <code>{detail.id}</code> · by {detail.owner} · {detail.priority} priority · submitted {moment(detail.submitted_at, now)}
            {" · "}
            {detail.ended_at === null ? `for ${span(now - detail.submitted_at)}` : `took ${span(detail.ended_at - detail.submitted_at)}`}
          </p>
        </div>
        <div className="actions">
          {own && live && (
            <button disabled={act.isPending || detail.state === "STOPPING"} onClick={() => act.mutate({ action: "cancel" })}>
              Cancel
            </button>
          )}
          {own && failed && (
            <button
              disabled={act.isPending}
              onClick={() => act.mutate({ action: "retry" })}
              title="Run failed, cancelled and skipped tasks again"
            >
              Retry
            </button>
          )}
          {own && live && waiting && !detail.held && (
            <button disabled={act.isPending} onClick={() => act.mutate({ action: "hold" })} title="Keep what waits from starting">
              Hold
            </button>
          )}
          {own && live && detail.held && (
            <button disabled={act.isPending} onClick={() => act.mutate({ action: "release" })}>
              Release
            </button>
          )}
          {own && (
            <>
              <Link href={`/submit/${id}`} className="button">
                Clone
              </Link>
              <a className="button" href={`/api/v1/jobs/${id}/logs.zip`} download>
                All logs
              </a>
            </>
          )}
        </div>
      </div>
      {act.isError && <Failure error={act.error} />}
      {detail.reason && detail.reason_task !== task?.name && (
        <p className="reason" role="status">
          <b>{detail.reason_task}</b>: <Sentence text={detail.reason.sentence} />
        </p>
      )}
      {detail.task_count > 1 && (
        <p className="facts">
          <TaskCounts job={detail} /> {counted(detail)}
        </p>
      )}
      {detail.missing.map((m) => (
        <p className="note" key={m.service}>
          {m.sentence}
        </p>
      ))}
      {detail.tasks.length > 1 && detail.tasks.length <= MAX_DRAWN && (
        <Dag tasks={detail.tasks} edges={detail.edges} chosen={task?.name} onChoose={choose} />
      )}
      <div className={task ? "split" : ""}>
        {detail.tasks.length > 1 && <TaskTable tasks={detail.tasks} chosen={task?.name} onChoose={choose} now={now} />}
        {task && (
          <TaskPanel
            key={task.name}
            job={id}
            task={task}
            now={now}
            busy={act.isPending}
            mayAct={own && detail.tasks.length > 1}
            onAct={(action) => act.mutate({ action, task: task.name })}
          />
        )}
      </div>
      {detail.tasks.length > 1 && !task && <p className="hint">Choose a task to see its attempts and its log.</p>}
    </>
  );
}

const sourceText: Record<NonNullable<Task["image_source"]>, string> = {
  market: "of the image market",
  engine: "that a machine has",
  registry: "of a registry",
};

/** What the names meant when the job was submitted; they may mean something else by now. */
function Pinned({ task }: { task: Task }) {
  const facts = [
    task.image_digest && (
      <>
        image <code title={task.image_digest}>{short(task.image_digest)}</code>
        {task.image_source && ` ${sourceText[task.image_source]}`}
      </>
    ),
    task.datasets.length > 0 && (
      <>
        {task.datasets.length === 1 ? "dataset" : "datasets"}{" "}
        {task.datasets.map((pin, i) => (
          <span key={pin}>
            {i > 0 && ", "}
            <Link href={`/datasets/${pin.split("@")[0] ?? ""}`}>{pin}</Link>
          </span>
        ))}
      </>
    ),
    task.code && (
      <>
        code <code title={task.code}>{short(task.code)}</code>
      </>
    ),
  ].filter(Boolean);
  if (facts.length === 0) return null;
  return (
    <p className="facts" aria-label="Pinned at submit">
      Pinned at submit:{" "}
      {facts.map((fact, i) => (
        <span key={i}>
          {i > 0 && " · "}
          {fact}
        </span>
      ))}
    </p>
  );
}

const counted = (job: JobDetail): string =>
  Object.entries(job.tasks_by_state)
    .map(([state, n]) => `${n} ${label(state)}`)
    .join(", ");

const streams: readonly LogStream[] = ["stdout", "stderr", "platform"];

function TaskPanel({
  job,
  task,
  now,
  busy,
  mayAct,
  onAct,
}: {
  job: string;
  task: Task;
  now: number;
  busy: boolean;
  mayAct: boolean;
  onAct: (action: Action) => void;
}) {
  const [stream, setStream] = useState<LogStream>("stdout");
  const [picked, setPicked] = useState<number | null>(null);
  const latest = task.attempts.at(-1);
  const attempt = task.attempts.find((a) => a.number === picked) ?? latest;
  const waits = task.waits;
  const number = attempt?.number ?? (task.attempt > 0 ? task.attempt : null);

  return (
    <section className="task-panel" aria-label={`Task ${task.name}`}>
      <div className="title-row">
        <h2>
          {task.name} <State state={task.state} tone={taskTone[task.state]} />
          {task.held && <span className="state wait">held</span>}
        </h2>
        {mayAct && (
          <div className="actions">
            {!taskEnded(task.state) && (
              <button disabled={busy || task.state === "STOPPING"} onClick={() => onAct("cancel")}>
                Cancel task
              </button>
            )}
            {(task.state === "BLOCKED" || task.state === "QUEUED") && (
              <button disabled={busy} onClick={() => onAct(task.held ? "release" : "hold")} title="Keep this task from starting, or let it">
                {task.held ? "Release task" : "Hold task"}
              </button>
            )}
            {taskEnded(task.state) && task.state !== "SUCCEEDED" && (
              <button disabled={busy} onClick={() => onAct("retry")}>
                Retry task
              </button>
            )}
          </div>
        )}
      </div>
      <p className="facts">
        <code>{task.image}</code> · timeout {span(task.timeout_s)} · {task.resources.cpus} CPU · {size(task.resources.memory_bytes)}
        {task.resources.gpus > 0 && (
          <>
            {" "}
            · {task.resources.gpus} GPU{task.resources.gpus > 1 ? "s" : ""}
          </>
        )}
        {task.node_id && <> · on {task.node_id}</>}
      </p>
      <Pinned task={task} />
      {task.reason && task.state !== "SUCCEEDED" && (
        <p className="reason">
          <Sentence text={task.reason.sentence} />
        </p>
      )}
      {(waits.length > 0 || task.waits_for.length > 0 || task.place) && !taskEnded(task.state) && (
        <div className="waits">
          <h3>Why it waits</h3>
          {task.place && (
            <p>
              Place {task.place.position} in the queue
              {task.place.estimated_start_at !== null && (
                <>
                  , starts {task.place.estimate_rough ? "very roughly" : "about"} {moment(task.place.estimated_start_at, now)}
                </>
              )}
              {task.place.promised_start_at !== null && <>, no later than {moment(task.place.promised_start_at, now)}</>}
            </p>
          )}
          <ul>
            {waits.map((w) => (
              <li key={w.word}>
                <Sentence text={w.sentence} />
              </li>
            ))}
            {waits.length === 0 && task.waits_for.length > 0 && <li>It needs {task.waits_for.join(", ")} first.</li>}
          </ul>
        </div>
      )}
      {task.attempts.length > 1 && (
        <div className="tabs" role="tablist" aria-label="Attempts">
          {task.attempts.map((a) => (
            <button key={a.number} role="tab" aria-selected={a === attempt} onClick={() => setPicked(a.number)}>
              attempt {a.number}
            </button>
          ))}
        </div>
      )}
      {attempt && (
        <div className="attempt">
          <p className="facts">
            Attempt {attempt.number}
            {attempt.of_runs > 1 && <> of {attempt.of_runs}</>}: <State state={attempt.state} tone={attemptTone[attempt.state]} /> on{" "}
            {attempt.node_id}
            {attempt.started_at !== null && <>, started {moment(attempt.started_at, now)}</>}
            {attempt.deadline_at !== null && attempt.ended_at === null && <>, killed at {moment(attempt.deadline_at, now)} at the latest</>}
            {attempt.extensions.map((given) => (
              <Fragment key={given.at}>
                , given {span(given.seconds)} more by {given.by}
              </Fragment>
            ))}
            {attempt.extension_pending && <> (its machine has not confirmed that yet)</>}
            {attempt.peak_memory_bytes !== null && <>, peak memory {size(attempt.peak_memory_bytes)}</>}
            {attempt.gpu_uuids.length > 0 && <>, GPUs {attempt.gpu_uuids.join(", ")}</>}
          </p>
          {attempt.reason && attempt !== latest && (
            <p className="reason">
              <Sentence text={attempt.reason.sentence} />
            </p>
          )}
          {attempt.warnings.length > 0 && (
            <Problems
              problems={attempt.warnings.map((message) => ({
                message,
                pointer: "",
                line: null,
                column: null,
                word: "",
                allowed: [],
                suggestion: "",
              }))}
            />
          )}
          <Phases attempt={attempt} now={now} />
        </div>
      )}
      {number !== null && (
        <>
          <div className="tabs" role="tablist" aria-label="Logs">
            {streams.map((s) => (
              <button key={s} role="tab" aria-selected={s === stream} onClick={() => setStream(s)}>
                {s}
              </button>
            ))}
          </div>
          <LogView place={{ job, task: task.name, attempt: number, stream }} key={`${number}/${stream}`} />
        </>
      )}
    </section>
  );
}
