import { Fragment, Suspense, lazy, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";

import type { Task } from "../api/client";
import { patiently } from "../api/reach";
import { sharesWith } from "../domain/bookings";
import { endFacts } from "../domain/ends";
import { gpusAsked, size, span } from "../domain/format";
import { short } from "../domain/image-name";
import { firstPress } from "../domain/press";
import { chosenIn, taskAddress } from "../domain/streams";
import { attemptTone, taskEnded, taskTone } from "../domain/states";
import { Problems, Sentence, State } from "./basics";
import { LogTabs } from "./log-tabs";
import { MoreTime } from "./more-time";
import { Phases } from "./phases";
import { SpecOf } from "./task-spec";
import { Before, Waiting } from "./waiting";
import { Moment, When } from "./when";

// With its charts' library: loaded where an attempt is looked at.
const AttemptUse = lazy(() => patiently(() => import("./attempt-use")).then((m) => ({ default: m.AttemptUse })));

export type Action = "cancel" | "retry" | "hold" | "release";

const sourceText: Record<NonNullable<Task["image_source"]>, string> = {
  market: "from the image market",
  engine: "already on a machine",
  registry: "from a registry",
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
    <p className="facts" aria-label="Versions in use">
      Versions, fixed at submit:{" "}
      {facts.map((fact, i) => (
        <span key={i}>
          {i > 0 && " · "}
          {fact}
        </span>
      ))}
    </p>
  );
}

/** Who waited longer may ask why. */
const LONG_WAIT_S = 5;

/** One task of a job: how it stands, its attempts, its logs. */
export function TaskPanel({
  job,
  task,
  now,
  busy,
  mayAct,
  mayExtend,
  admin,
  foreign,
  onAct,
}: {
  job: string;
  task: Task;
  now: number;
  busy: boolean;
  /** Buttons of the job as a whole stand for its only task. */
  mayAct: boolean;
  mayExtend: boolean;
  admin: boolean;
  /** Of somebody else: it is asked before it is cancelled. */
  foreign: boolean;
  onAct: (action: Action) => void;
}) {
  const [, go] = useLocation();
  // In the address, so that it can be passed on, and goes along from task to task.
  const { stream, attempt: picked } = chosenIn(useSearch());
  const pressed = (action: Action) => (event: { readonly detail: number }) => {
    if (firstPress(event)) onAct(action);
  };
  const latest = task.attempts.at(-1);
  const attempt = task.attempts.find((a) => a.number === picked) ?? latest;
  // The attempt that it was asked for: another one that begins meanwhile is another question.
  const [extendedNumber, setExtended] = useState<number | null>(null);
  const extended = task.attempts.find((a) => a.number === extendedNumber);
  // Its timeout counts from its start, and what is being stopped gets no more.
  const extensible = mayExtend && task.state === "RUNNING" && latest?.state === "RUNNING";
  const timeout = latest !== undefined && latest.ended_at === null && latest.timeout_s !== null ? latest.timeout_s : task.timeout_s;
  const number = attempt?.number ?? (task.attempt > 0 ? task.attempt : null);

  return (
    <section className="task-panel" aria-label={`Task ${task.name}`}>
      <div className="title-row">
        <h2>
          {task.name} <State state={task.state} tone={taskTone[task.state]} />
          {task.held && <span className="state wait">held</span>}
        </h2>
        <div className="actions">
          {extensible && (
            <button onClick={() => setExtended(latest.number)} title="Let this task run longer than its timeout">
              More time …
            </button>
          )}
          {mayAct && (
            <>
              {!taskEnded(task.state) && (
                <button disabled={busy || task.state === "STOPPING"} onClick={pressed("cancel")}>
                  Cancel task{foreign && " …"}
                </button>
              )}
              {(task.state === "BLOCKED" || task.state === "QUEUED") && (
                <button disabled={busy} onClick={pressed(task.held ? "release" : "hold")} title={task.held ? "Let this task start again" : "Keep this task from starting"}>
                  {task.held ? "Release task" : "Hold task"}
                </button>
              )}
              {taskEnded(task.state) && task.state !== "SUCCEEDED" && (
                <button disabled={busy} onClick={pressed("retry")}>
                  Retry task
                </button>
              )}
            </>
          )}
        </div>
      </div>
      <p className="facts">
        <code>{task.image}</code> · timeout {span(timeout)} · {task.resources.cpus} CPU · {size(task.resources.memory_bytes)}
        {gpusAsked(task.resources) && (
          <>
            {" "}
            · {gpusAsked(task.resources)}
          </>
        )}
        {task.node_id && <> · on {task.node_id}</>}
      </p>
      {task.reason && task.state !== "SUCCEEDED" && (
        <p className="reason">
          <Sentence text={task.reason.sentence} /> {endFacts(task.reason) && <span className="fact">{endFacts(task.reason)}</span>}
        </p>
      )}
      <Waiting job={job} task={task} now={now} />
      {task.attempts.length > 1 && (
        <div className="tabs" role="tablist" aria-label="Attempts">
          {task.attempts.map((a) => (
            <button key={a.number} role="tab" aria-selected={a === attempt} onClick={() => go(taskAddress(job, task.name, { stream, attempt: a.number }, window.location.search), { replace: true })}>
              attempt {a.number}
            </button>
          ))}
        </div>
      )}
      {number !== null && (
        <LogTabs
          key={number}
          job={job}
          task={task.name}
          number={number}
          attempt={attempt}
          chosen={stream}
          mayRead={mayExtend}
          onChoose={(one) => go(taskAddress(job, task.name, { stream: one, attempt: picked }, window.location.search), { replace: true })}
        />
      )}
      {attempt && (
        <div className="attempt">
          <p className="facts">
            Attempt {attempt.number}
            {attempt.of_runs > 1 && <> of {attempt.of_runs}</>}: <State state={attempt.state} tone={attemptTone[attempt.state]} /> on{" "}
            {attempt.node_id}
            {attempt.started_at !== null && <>, started <Moment at={attempt.started_at} now={now} /></>}
            {attempt.deadline_at !== null && attempt.ended_at === null && (
              <>
                , stopped at <When at={attempt.deadline_at} now={now} /> at the latest
              </>
            )}
            {attempt.extensions.map((given) => (
              <Fragment key={given.at}>
                , given {span(given.seconds)} more by {given.by}
              </Fragment>
            ))}
            {attempt.extension_pending && <> (its machine has not confirmed that yet)</>}
            {endFacts(attempt.reason) && <>, {endFacts(attempt.reason)}</>}
            {attempt.peak_memory_bytes !== null && <>, peak memory {size(attempt.peak_memory_bytes)}</>}
            {attempt.gpu_uuids.length > 0 && <>, GPUs {attempt.gpu_uuids.join(", ")}</>}
            {attempt.gpus_simulated && <> (only simulated)</>}
            {attempt.sharing && <>, {sharesWith(attempt.sharing, attempt.node_id)}</>}
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
          {mayExtend && (
            <Suspense fallback={<p>Loading …</p>}>
              <AttemptUse key={attempt.number} job={job} task={task.name} attempt={attempt} />
            </Suspense>
          )}
          {attempt === latest && !taskEnded(task.state) && (attempt.phases.scheduling_s ?? 0) >= LONG_WAIT_S && (
            <Before job={job} task={task.name} now={now} title="What started before it?" />
          )}
        </div>
      )}
      {extended && (
        <MoreTime job={job} task={task.name} attempt={extended} admin={admin} now={now} onClose={() => setExtended(null)} />
      )}
      <Pinned task={task} />
      {mayExtend && <SpecOf job={job} task={task.name} />}
    </section>
  );
}
