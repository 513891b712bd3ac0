import { Link } from "wouter";

import { useJobName } from "../api/names";
import { visible } from "../domain/paths";
import { type TaskRef, shortened, splitTasks } from "../domain/tasks";
import { Sentence } from "./basics";

/** A sentence of the server in which tasks stand by the id of their job: each leads to its page. */
export function Told({ text }: { text: string }) {
  return <>{splitTasks(text).map((part, i) => (typeof part === "string" ? <Sentence key={i} text={part} /> : <TaskLink key={i} {...part} />))}</>;
}

/** A job or task by its name, as lists show it; by its id while the name is not known. */
export function TaskLink({ job, task }: TaskRef) {
  const name = useJobName(job);
  const id = task ? `${job}/${task}` : job;
  const whole = name && (task ? `${visible(name)} / ${task}` : visible(name));
  return (
    <Link href={`/jobs/${job}${task ? `/${encodeURIComponent(task)}` : ""}`} className="task-ref" title={whole ? `${whole} (${id})` : id}>
      {name ? shortened(visible(name)) + (task && ` / ${shortened(task)}`) : id}
    </Link>
  );
}
