import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { type Queue, api, body } from "../api/client";
import { keys } from "../api/events";
import { Empty, Failure, Sentence, useNow, useTitle } from "../components/basics";
import { moment, size, span } from "../domain/format";

export function QueueView() {
  useTitle("Queue");
  const queue = useQuery({
    queryKey: keys.queue,
    queryFn: async () => (await body(api.GET("/api/v1/queue", { params: { query: { limit: 200 } } }))) as Queue,
    refetchInterval: 15_000,
  });
  const now = useNow(1000);
  if (queue.isPending) return <p>Loading …</p>;
  if (queue.isError) return <Failure error={queue.error} again={() => void queue.refetch()} />;
  const { entries, total_waiting, total_running, policy, discipline, scheduling } = queue.data;
  const binding = discipline === "conservative" || discipline === "easy";
  return (
    <>
      <h1>Queue</h1>
      <p className="facts">
        {total_waiting} waiting, {total_running} running ({policy}, {discipline}).
        {policy === "aging_sjf" && " Tasks with a short timeout go first, and waiting moves every task forward, so long ones get their turn."}
        {binding && " A task may start before those ahead of it if that delays none of them; a start that is promised (no later than) holds."}
      </p>
      {scheduling.failure && (
        <p className="failure" role="alert">
          The policy of the queue fails: <Sentence text={scheduling.failure} />. Nothing is lost.
        </p>
      )}
      {(scheduling.policy_set_by || scheduling.discipline_set_by) && (
        <p className="facts">
          Set by {scheduling.policy_set_by ?? scheduling.discipline_set_by}: {scheduling.policy}, {scheduling.discipline}. Configured:{" "}
          {scheduling.configured_policy}, {scheduling.configured_discipline}.
        </p>
      )}
      {entries.length === 0 ? (
        <Empty>Nothing waits: what is submitted now starts at once if a machine has room.</Empty>
      ) : (
        <div className="scroll">
          <table className="wide">
            <thead>
              <tr>
                <th>Place</th>
                <th>Task</th>
                <th>Owner</th>
                <th>Asks for</th>
                <th>Timeout</th>
                <th>Waits</th>
                <th title="An estimate; what comes in between may change it. With ~ it is a rough one">Starts about</th>
                <th title="Promised: later than this it does not start">No later than</th>
                <th>Why</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((e) => (
                <tr key={`${e.job_id}/${e.task}`}>
                  <td className="number" data-label="place">
                    {e.position || "–"}
                  </td>
                  <td className="name">
                    <Link href={`/jobs/${e.job_id}/${encodeURIComponent(e.task)}`}>
                      {e.job_name} / {e.task}
                    </Link>
                  </td>
                  <td>{e.owner}</td>
                  <td>
                    {e.resources.gpus > 0 && `${e.resources.gpus} GPU, `}
                    {e.resources.cpus} CPU, {size(e.resources.memory_bytes)}
                  </td>
                  <td className="number" data-label="timeout">
                    {span(e.timeout_s)}
                  </td>
                  <td className="number" data-label="waits">
                    {span(now - e.submitted_at)}
                  </td>
                  <td data-label="starts about">
                    {e.estimate_rough && e.estimated_start_at !== null && <abbr title="A rough figure: no machine is reserved yet">~ </abbr>}
                    {e.estimated_start_at === null ? "–" : moment(e.estimated_start_at, now)}
                  </td>
                  <td data-label="no later than">{e.promised_start_at === null ? "–" : moment(e.promised_start_at, now)}</td>
                  <td className="why">
                    {e.waits.map((wait) => (
                      <div key={wait.word}>
                        <Sentence text={wait.sentence} />
                      </div>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {total_waiting > entries.length && <p className="note">The first {entries.length} are shown.</p>}
    </>
  );
}
