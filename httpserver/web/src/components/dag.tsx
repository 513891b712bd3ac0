import { memo, useMemo } from "react";

import type { JobDetail, TaskState } from "../api/client";
import { layout, path, shorten } from "../domain/graph";
import { label, taskTone } from "../domain/states";

interface Props {
  readonly tasks: JobDetail["tasks"];
  readonly edges: JobDetail["edges"];
  readonly chosen: string | undefined;
  readonly onChoose: (name: string) => void;
}

/** The job's DAG, coloured by live states; the layout is made once, colours follow the states. */
export const Dag = memo(function Dag({ tasks, edges, chosen, onChoose }: Props) {
  const names = tasks.map((t) => t.name).join("\n");
  const placed = useMemo(() => layout(tasks, edges), [names, edges]);
  const states = new Map<string, TaskState>(tasks.map((t) => [t.name, t.state]));
  return (
    <div className="dag" tabIndex={-1}>
      <svg width={placed.width} height={placed.height} role="group" aria-label="Tasks and what they need">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0,0 L8,4 L0,8 z" className="arrowhead" />
          </marker>
        </defs>
        {placed.edges.map((e) => (
          <path key={`${e.source}\n${e.target}`} d={path(e.points)} className={`edge on-${e.on}`} markerEnd="url(#arrow)">
            <title>{`${e.target} needs ${e.source}: ${e.on}`}</title>
          </path>
        ))}
        {placed.tasks.map((t) => {
          const state = states.get(t.name) ?? "BLOCKED";
          return (
            <g
              key={t.name}
              className={`task ${taskTone[state]}${chosen === t.name ? " chosen" : ""}`}
              data-task={t.name}
              data-state={state}
              transform={`translate(${t.x - t.width / 2},${t.y - t.height / 2})`}
              role="button"
              tabIndex={0}
              aria-label={`${t.name}: ${label(state)}`}
              onClick={() => onChoose(t.name)}
              onKeyDown={(e) => {
                if (e.key === "Enter" || e.key === " ") {
                  e.preventDefault();
                  onChoose(t.name);
                }
              }}
            >
              <title>{`${t.name}: ${label(state)}`}</title>
              <rect width={t.width} height={t.height} rx="7" />
              <circle cx="15" cy={t.height / 2} r="5" />
              <text x="28" y={t.height / 2} dominantBaseline="central">
                {shorten(t.name)}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
});
