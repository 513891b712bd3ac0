import { useEffect, useState } from "react";

import type { User } from "../api/client";
import { PAGE, REACH, useQueue } from "../api/queue";
import { SearchField, useAddress } from "../components/address";
import { Empty, useNow, useTitle } from "../components/basics";
import { RunningTable } from "../components/bookings";
import { QueueTable } from "../components/queue-table";
import { SchedulingPanel } from "../components/scheduling";
import { HelpLink } from "../components/help-link";
import { Trouble, shows } from "../components/kept-answer";
import { numberIn, textIn } from "../domain/address";
import { found, lastOffset } from "../domain/queue";

export function QueueView({ user }: { user: User }) {
  useTitle("Queue");
  const [given, change] = useAddress();
  const mine = given.get("of") === "mine";
  const text = textIn(given.get("q"));
  const [reach, setReach] = useState(REACH);
  const wanted = Math.floor(numberIn(given.get("from"), 10_000_000) / PAGE) * PAGE;
  const setWanted = (from: number): void => change({ from: from === 0 ? null : String(from) });
  const searching = text.trim() !== "";
  const queue = useQueue({ owner: mine ? user.name : "", offset: wanted, whole: searching ? reach : null });
  const now = useNow(1000);

  const matching = searching ? found(queue.data?.entries ?? [], text) : null;
  const count = matching?.length ?? queue.data?.total_matching ?? 0;
  // The queue may have become shorter than where the reader was.
  const offset = Math.min(wanted, lastOffset(count, PAGE));
  const settled = queue.data !== undefined && !queue.isPlaceholderData;
  useEffect(() => {
    if (settled && offset !== wanted) change({ from: offset === 0 ? null : String(offset) }, { typed: true });
  }, [settled, offset, wanted, change]);

  if (queue.isPending) return <p>Loading …</p>;
  if (queue.data === undefined || !shows(queue)) return <Trouble of={queue} />;
  const { entries, total_waiting, total_matching, total_running, scheduling } = queue.data;
  const shown = matching === null ? entries : matching.slice(offset, offset + PAGE);
  const running = found(queue.data.running ?? [], text);
  const runningOf = searching ? running.length : (queue.data.running_matching ?? 0);
  const rough = shown.some((e) => e.estimate_rough && e.estimated_start_at !== null);
  const further = matching !== null && settled && reach < total_matching;
  return (
    <>
      <div className="title-row">
        <div className="helped">
          <h1>Queue</h1>
          <HelpLink topic="waiting" />
        </div>
        <div className="filters">
          <label>
            <input
              type="checkbox"
              checked={mine}
              onChange={(e) => change({ of: e.target.checked ? "mine" : null, from: null })}
            />{" "}
            only mine
          </label>
          <SearchField placeholder="owner, job or task" value={text} onText={(q) => change({ q, from: null }, { typed: true })} />
        </div>
      </div>
      <p className="facts" role="status">
        {total_waiting} waiting, {total_running} running.
        {(mine || searching) && ` ${count} waiting ${count === 1 ? "task matches" : "tasks match"}.`}
      </p>
      <Trouble of={queue} />
      <SchedulingPanel scheduling={scheduling} waiting={total_waiting} admin={user.admin} now={now} />
      {running.length > 0 && (
        <section className="runs" aria-labelledby="what-runs">
          <h2 id="what-runs">Running</h2>
          <RunningTable running={running} of={runningOf} now={now} />
        </section>
      )}
      <h2>Waiting</h2>
      {shown.length > 0 && <QueueTable entries={shown} now={now} />}
      {count === 0 && total_waiting === 0 && <Empty>No task waits. A new task starts at once if a machine has enough free CPUs, memory and GPUs.</Empty>}
      {count === 0 && total_waiting > 0 && settled && <Empty>{!searching ? "No task of yours waits." : "No waiting task matches."}</Empty>}
      {rough && <p className="note">~ marks a rough estimate: no machine is reserved for this task yet.</p>}
      {count > PAGE && <Pages offset={offset} count={count} onOffset={setWanted} />}
      {further && (
        <p className="note">
          Only the first {reach} tasks {mine ? "of yours" : "of the queue"} were searched.{" "}
          <button className="small" onClick={() => setReach(reach + REACH)}>
            Search further
          </button>
        </p>
      )}
    </>
  );
}

function Pages({ offset, count, onOffset }: { offset: number; count: number; onOffset: (offset: number) => void }) {
  const last = lastOffset(count, PAGE);
  return (
    <nav className="actions pages" aria-label="Pages of the queue">
      <button disabled={offset === 0} onClick={() => onOffset(0)}>
        First
      </button>
      <button disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - PAGE))}>
        Earlier
      </button>
      <span className="facts">
        {offset + 1} to {Math.min(count, offset + PAGE)} of {count}
      </span>
      <button disabled={offset >= last} onClick={() => onOffset(offset + PAGE)}>
        Later
      </button>
      <button disabled={offset >= last} onClick={() => onOffset(last)}>
        Last
      </button>
    </nav>
  );
}
