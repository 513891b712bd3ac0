import { Link } from "wouter";

import { splitTasks } from "../domain/tasks";
import { Sentence } from "./basics";

/** A sentence of the server in which tasks stand by the id of their job: each leads to its page. */
export function Told({ text }: { text: string }) {
  return (
    <>
      {splitTasks(text).map((part, i) =>
        typeof part === "string" ? (
          <Sentence key={i} text={part} />
        ) : (
          <Link key={i} href={`/jobs/${part.job}${part.task ? `/${encodeURIComponent(part.task)}` : ""}`} className="task-ref">
            {part.task ? `${part.job}/${part.task}` : part.job}
          </Link>
        ),
      )}
    </>
  );
}
