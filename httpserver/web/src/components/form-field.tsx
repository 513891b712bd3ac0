import { type ReactNode, useId } from "react";

import type { ProblemItem } from "../api/client";
import { FieldProblems } from "./basics";

export interface Aria {
  readonly "aria-invalid"?: true;
  readonly "aria-describedby"?: string;
}

/** What tells a field's messages to those who don't see them beside it; `id`: of what `Messages` draws. */
export const aria = (problems: readonly ProblemItem[], id: string): Aria =>
  problems.length > 0 ? { "aria-invalid": true, "aria-describedby": id } : {};

export function Messages({ problems, id }: { problems: readonly ProblemItem[]; id: string }) {
  if (problems.length === 0) return null;
  return (
    <span id={id} className="messages">
      <FieldProblems problems={problems} />
    </span>
  );
}

/** A field whose value only the file can show. */
export function Fixed({ why }: { why: string }) {
  return <small className="note">Change it as YAML: {why}.</small>;
}

/** A label, its field and what is wrong with it. */
export function Field({
  label,
  problems,
  hint,
  fixed,
  children,
}: {
  label: string;
  problems: readonly ProblemItem[];
  hint?: string;
  fixed?: string | undefined;
  children: (aria: Aria) => ReactNode;
}) {
  const id = useId();
  return (
    <label className={problems.length > 0 ? "wrong" : ""}>
      <span>
        {label}
        {hint && <small> {hint}</small>}
      </span>
      {children(aria(problems, id))}
      {fixed !== undefined && <Fixed why={fixed} />}
      <Messages problems={problems} id={id} />
    </label>
  );
}
