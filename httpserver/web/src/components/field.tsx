import { type ReactNode, useId } from "react";

import { ApiError, type ProblemItem } from "../api/client";
import { Failure, FieldProblems } from "./basics";

const problemsAt = (error: Error | null, at: string): readonly ProblemItem[] =>
  error instanceof ApiError ? error.problems.filter((problem) => problem.pointer === at) : [];

export interface FieldProps {
  readonly id: string;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string | undefined;
}

/** A field with its name above it, and what is wrong with it below. `at`: what the server calls it, such as /name. */
export function Field({
  label,
  at,
  error,
  wrong = "",
  hint,
  children,
}: {
  label: string;
  at: string;
  error: Error | null;
  /** What the page knows by itself. */
  wrong?: string;
  hint?: string;
  children: (props: FieldProps) => ReactNode;
}) {
  const id = useId();
  const problems = problemsAt(error, at);
  const bad = wrong !== "" || problems.length > 0;
  return (
    <div className={bad ? "block field wrong" : "block field"}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-invalid": bad, "aria-describedby": bad || hint !== undefined ? `${id}-about` : undefined })}
      <div id={`${id}-about`} role={bad ? "alert" : undefined}>
        {hint !== undefined && <small className="note">{hint}</small>}
        {wrong !== "" && <small className="wrong-text">{wrong}</small>}
        <FieldProblems problems={problems} />
      </div>
    </div>
  );
}

/** What stands beside none of the fields `at`. */
export function OtherFailure({ error, at }: { error: Error | null; at: readonly string[] }) {
  if (error === null || (error instanceof ApiError && error.problems.length > 0 && error.problems.every((p) => at.includes(p.pointer)))) return null;
  return <Failure error={error} />;
}
