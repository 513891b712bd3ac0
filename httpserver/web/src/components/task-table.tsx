import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";

import type { Task } from "../api/client";
import { span } from "../domain/format";
import { taskTone } from "../domain/states";
import { State } from "./basics";

const ROW_PX = 38;

/** All tasks of a job; only the rows on screen exist, so ten thousand are as quick as ten. */
export function TaskTable({
  tasks,
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
  const rows = useVirtualizer({
    count: tasks.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  return (
    <div className="task-table" ref={box} role="table" aria-label="Tasks" aria-rowcount={tasks.length}>
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((item) => {
          const task = tasks[item.index];
          if (task === undefined) return null;
          const ran = task.started_at === null ? null : (task.ended_at ?? now) - task.started_at;
          return (
            <button
              key={task.name}
              role="row"
              aria-rowindex={item.index + 1}
              data-task-row={task.name}
              className={task.name === chosen ? "task-row chosen" : "task-row"}
              style={{ position: "absolute", top: 0, height: ROW_PX, transform: `translateY(${item.start}px)` }}
              onClick={() => onChoose(task.name)}
            >
              <span role="cell" className="task-name">
                {task.name}
              </span>
              <span role="cell">
                <State state={task.state} tone={taskTone[task.state]} />
              </span>
              <span role="cell" className="number">
                {span(ran)}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}
