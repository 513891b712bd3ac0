import { useId } from "react";

import type { NeedOn, ProblemItem } from "../api/client";
import type { NeedRow } from "../domain/form";
import { Fixed, Messages, aria } from "./form-field";

/** Which tasks have to end first, and how. */
export function NeedsField({
  needs,
  others,
  fixed,
  problemsAt,
  onChange,
}: {
  needs: readonly NeedRow[];
  others: readonly string[];
  fixed: string | undefined;
  /** Of a task's name; of none: of all of them. */
  problemsAt: (name?: string) => readonly ProblemItem[];
  onChange: (needs: readonly NeedRow[]) => void;
}) {
  const id = useId();
  const missing = others.filter((name) => name && !needs.some((n) => n.task === name));
  return (
    <div className="needs">
      <span>Needs</span>
      {needs.map((need, i) => {
        const problems = problemsAt(need.task);
        const called = need.task || "a task without a name";
        return (
          <span className={problems.length > 0 ? "chip wrong" : "chip"} key={`${i} ${need.task}`}>
            <bdi>{called}</bdi>
            <select
              aria-label={`How ${called} must end`}
              value={need.on}
              {...aria(problems, `${id}-${i}`)}
              onChange={(e) => onChange(needs.map((n, j) => (j === i ? { ...n, on: e.target.value as NeedOn } : n)))}
            >
              <option value="success">success</option>
              <option value="failure">failure</option>
              <option value="any">any end</option>
            </select>
            <button type="button" aria-label={`Does not need ${called}`} onClick={() => onChange(needs.filter((_, j) => j !== i))}>
              ×
            </button>
            <Messages problems={problems} id={`${id}-${i}`} />
          </span>
        );
      })}
      {missing.length > 0 && fixed === undefined && (
        <select
          aria-label="Add a need"
          value=""
          {...aria(problemsAt(), id)}
          onChange={(e) => e.target.value && onChange([...needs, { task: e.target.value, on: "success" }])}
        >
          <option value="">add …</option>
          {missing.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
      {fixed !== undefined && <Fixed why={fixed} />}
      <Messages problems={problemsAt()} id={id} />
    </div>
  );
}
