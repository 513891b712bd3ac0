import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Decision, type Task, api, body } from "../api/client";
import { keys } from "../api/events";
import { termsInWords } from "../domain/scheduling";
import { taskEnded } from "../domain/states";
import { TaskLink, Told } from "./told";
import { Trouble } from "./kept-answer";
import { When } from "./when";
import { HelpLink } from "./help-link";

/** Why a task waits, when it starts, and what makes its place. */
export function Waiting({ job, task, now }: { job: string; task: Task; now: number }) {
  const { waits, place } = task;
  if (taskEnded(task.state) || (waits.length === 0 && task.waits_for.length === 0 && place === null)) return null;
  return (
    <section className="waits" aria-label="Why it waits">
      <div className="helped">
        <h3>Why it waits</h3>
        <HelpLink topic="waiting" />
      </div>
      {place && (
        <p>
          Place {place.position} in the queue
          {place.estimated_start_at !== null && (
            <>
              , starts {place.estimate_rough ? "very roughly" : "about"} <When at={place.estimated_start_at} now={now} />
            </>
          )}
          {place.promised_start_at !== null && (
            <>
              , promised: <b>no later than</b> <When at={place.promised_start_at} now={now} up />
              {place.first_promised_start_at != null && (
                <>
                  {" "}(first: <When at={place.first_promised_start_at} now={now} up distance={false} />)
                </>
              )}
              <HelpLink topic="promise" />
            </>
          )}
          .
        </p>
      )}
      {place?.estimated_start_at != null && place.promised_start_at === null && (
        <p className="note">
          This is an estimate: tasks submitted later may change it. No start is promised to this task now. <HelpLink topic="promise" />
        </p>
      )}
      <ul>
        {waits.map((w, i) => (
          <li key={i}>
            <Told text={w.sentence} />
          </li>
        ))}
        {waits.length === 0 && task.waits_for.length > 0 && <li>It waits for {task.waits_for.join(", ")}.</li>}
      </ul>
      {place && <Terms terms={place.terms} now={now} />}
      {task.state === "QUEUED" && <Before job={job} task={task.name} now={now} title="Why did others start before?" />}
    </section>
  );
}

/** The parts of its priority. */
export function Terms({ terms, now }: { terms: { readonly [name: string]: number }; now: number }) {
  return (
    <details className="terms">
      <summary>How its place is calculated</summary>
      <dl>
        {termsInWords(terms, now).map((term) => (
          <div key={term.name}>
            <dt>{term.name}</dt>
            <dd className="number">{term.value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

const PASSES = 10;
const STARTS = 8;

/** The decisions that started something while a task waited; asked for when they are opened. */
export function Before({ job, task, now, title }: { job: string; task: string; now: number; title: string }) {
  const [open, setOpen] = useState(false);
  const passes = useInfiniteQuery({
    queryKey: keys.decisions(job, task),
    enabled: open,
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET("/api/v1/jobs/{job}/tasks/{task}/decisions", {
          params: { path: { job, task }, query: { limit: PASSES, before: pageParam } },
          signal,
        }),
      ),
    getNextPageParam: (last) => last.next_before,
  });
  const found = passes.data?.pages.flatMap((page) => page.decisions) ?? [];
  const kept = passes.data?.pages[0]?.kept_days ?? 0;
  return (
    <details className="before" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{title}</summary>
      {passes.isPending && open && <p className="note">Loading …</p>}
      <Trouble of={passes} />
      {passes.data !== undefined && found.length === 0 && (
        <p className="note">
          No other task started while it waited. {kept > 0 ? `The server keeps the decisions of ${kept} ${kept === 1 ? "day" : "days"}.` : "This server keeps no past decisions."}
        </p>
      )}
      <ol className="passes">
        {found.map((one) => (
          <Pass key={one.id} one={one} job={job} task={task} now={now} />
        ))}
      </ol>
      {found.length > 0 && (
        <p>
          <button type="button" className="small" disabled={passes.isFetching} onClick={() => void passes.refetch()}>
            Refresh
          </button>{" "}
          {passes.hasNextPage && (
            <button type="button" className="small" disabled={passes.isFetching} onClick={() => void passes.fetchNextPage()}>
              Earlier
            </button>
          )}
        </p>
      )}
    </details>
  );
}

function Pass({ one, job, task, now }: { one: Decision; job: string; task: string; now: number }) {
  const others = one.started.filter((start) => start.job_id !== job || start.task !== task);
  const unseen = one.started_in_all - Math.min(one.started.length, STARTS);
  return (
    <li>
      <p className="facts">
        <When at={one.at} now={now} distance={false} /> · policy {one.policy}, overtaking rule {one.discipline}
      </p>
      <ul>
        {others.slice(0, STARTS).map((start) => (
          <li key={`${start.job_id}/${start.task}`}>
            {start.sentence ? (
              <Told text={start.sentence} />
            ) : (
              <>
                <TaskLink job={start.job_id} task={start.task} /> started on {start.node_id}.
              </>
            )}
          </li>
        ))}
        {unseen > 0 && <li className="note">and {unseen} more</li>}
      </ul>
      {one.started_itself ? (
        <p>This task started then, too.</p>
      ) : (
        <p>
          {one.place === 0 ? "This task did not start" : `This task waited at place ${one.place} of the tasks that were considered`}
          {one.reserved_start_at !== null && (
            <>
              , with a reserved start at <When at={one.reserved_start_at} now={now} distance={false} />
            </>
          )}
          . {one.waits.map((w, i) => (
            <span key={i}>
              <Told text={w.sentence} />{" "}
            </span>
          ))}
        </p>
      )}
    </li>
  );
}
