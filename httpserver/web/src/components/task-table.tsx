import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";

import type { Task, TaskState } from "../api/client";
import { textIn, wordIn } from "../domain/address";
import { span } from "../domain/format";
import { label, startedAt, taskTone } from "../domain/states";
import { SearchField, useAddress } from "./address";
import { State } from "./basics";

const ROW_PX = 38;
/** More tasks than this get a search above them. */
const MANY = 15;

/** All tasks of a job; only the rows on screen exist, so ten thousand are as quick as ten. */
export function TaskTable({
  tasks: all,
  chosen,
  onChoose,
  now,
}: {
  tasks: readonly Task[];
  chosen: string | undefined;
  onChoose: (name: string) => void;
  now: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [given, change] = useAddress();
  const many = all.length > MANY;
  const text = many ? textIn(given.get("find")) : "";
  const state = wordIn<TaskState | "">(many ? given.get("state") : null, Object.keys(taskTone) as TaskState[], "");
  const wanted = text.trim().toLowerCase();
  const tasks = useMemo(
    () => (wanted || state ? all.filter((t) => (!state || t.state === state) && t.name.toLowerCase().includes(wanted)) : all),
    [all, wanted, state],
  );
  const present = [...new Set([...all.map((t) => t.state), ...(state ? [state] : [])])];
  const rows = useVirtualizer({
    count: tasks.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  return (
    <div className="task-list">
      {many && (
        <div className="filters">
          <SearchField label="Find a task" placeholder="Find a task" value={text} onText={(find) => change({ find }, { typed: true })} />
          <select aria-label="State" value={state} onChange={(e) => change({ state: e.target.value })}>
            <option value="">any state</option>
            {present.map((s) => (
              <option key={s} value={s}>
                {label(s)}
              </option>
            ))}
          </select>
        </div>
      )}
      <div className="task-table" ref={box} role="group" aria-label="Tasks">
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((item) => {
            const task = tasks[item.index];
            if (task === undefined) return null;
            const started = startedAt(task);
            const ran = started === null ? null : (task.ended_at ?? now) - started;
            return (
              <button
                key={task.name}
                aria-current={task.name === chosen}
                data-task-row={task.name}
                className={task.name === chosen ? "task-row chosen" : "task-row"}
                style={{ position: "absolute", top: 0, height: ROW_PX, transform: `translateY(${item.start}px)` }}
                onClick={() => onChoose(task.name)}
              >
                <span className="task-name">
                  {task.name}
                </span>
                <span>
                  <State state={task.state} tone={taskTone[task.state]} />
                </span>
                <span className="number">
                  {span(ran)}
                </span>
              </button>
            );
          })}
        </div>
        {tasks.length === 0 && <p className="empty">No task matches.</p>}
      </div>
    </div>
  );
}
