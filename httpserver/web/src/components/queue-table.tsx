import { Link } from "wouter";

import type { Queue } from "../api/client";
import { gpusAsked, size, span } from "../domain/format";
import { visible } from "../domain/paths";
import { Told } from "./told";
import { Terms } from "./waiting";
import { When } from "./when";
import { HelpLink } from "./help-link";

type Entry = Queue["entries"][number];

/** Waiting tasks, a row each. */
export function QueueTable({ entries, now }: { entries: readonly Entry[]; now: number }) {
  return (
    <div className="scroll">
      <table className="wide queue" aria-label="Waiting tasks">
        <thead>
          <tr>
            <th className="place">Place</th>
            <th className="task">Task</th>
            <th className="owner">Owner</th>
            <th className="asks">Asks for</th>
            <th className="time">Timeout</th>
            <th className="time">Waits</th>
            <th className="start" title="An estimate: tasks submitted later may change it">
              Starts about
            </th>
            <th className="start" title="Promised: the task starts at this time or before">
              No later than <HelpLink topic="promise" />
            </th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Row key={`${entry.job_id}/${entry.task}`} entry={entry} now={now} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ entry: e, now }: { entry: Entry; now: number }) {
  const job = visible(e.job_name);
  return (
    <tr>
      <td className="number" data-label="place">
        {e.position || "–"}
      </td>
      <td className="name">
        <Link href={`/jobs/${e.job_id}/${encodeURIComponent(e.task)}`} title={`${job} / ${e.task} (${e.job_id})`}>
          <span>{job}</span> <span>/ {e.task}</span>
        </Link>
      </td>
      <td className="owner" title={e.owner}>
        {e.owner}
      </td>
      <td className="asks">
        {gpusAsked(e.resources) && (
          <>
            <span>{gpusAsked(e.resources)},</span>{" "}
          </>
        )}
        <span>{e.resources.cpus} CPU,</span> <span>{size(e.resources.memory_bytes)}</span>
      </td>
      <td className="number" data-label="timeout">
        {span(e.timeout_s)}
      </td>
      <td className="number" data-label="waits">
        {span(now - e.submitted_at)}
      </td>
      <td data-label="starts about">
        {e.estimated_start_at === null ? (
          "–"
        ) : (
          <>
            {e.estimate_rough && <abbr title="A rough estimate">~ </abbr>}
            <When at={e.estimated_start_at} now={now} />
          </>
        )}
      </td>
      <td data-label="no later than">{e.promised_start_at === null ? "–" : <When at={e.promised_start_at} now={now} up />}</td>
      <td className="why">
        <Reasons waits={e.waits} />
        <Terms terms={e.terms} now={now} />
      </td>
    </tr>
  );
}

const FEW_REASONS = 2;

/** The first ones; one more is shown rather than hidden behind a line as long. */
function Reasons({ waits }: { waits: Entry["waits"] }) {
  const few = waits.length > FEW_REASONS + 1 ? FEW_REASONS : waits.length;
  const one = (wait: Entry["waits"][number], i: number) => (
    <div key={i}>
      <Told text={wait.sentence} />
    </div>
  );
  return (
    <>
      {waits.slice(0, few).map(one)}
      {few < waits.length && (
        <details className="more-reasons">
          <summary>{waits.length - few} more reasons</summary>
          {waits.slice(few).map(one)}
        </details>
      )}
    </>
  );
}
