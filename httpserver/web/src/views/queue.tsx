import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { type Queue, type User, api, body } from "../api/client";
import { keys } from "../api/events";
import { Empty, Failure, useNow, useTitle } from "../components/basics";
import { SchedulingPanel } from "../components/scheduling";
import { Told } from "../components/told";
import { Terms } from "../components/waiting";
import { When } from "../components/when";
import { size, span } from "../domain/format";

export function QueueView({ user }: { user: User }) {
  useTitle("Queue");
  const queue = useQuery({
    queryKey: keys.queue,
    queryFn: async () => (await body(api.GET("/api/v1/queue", { params: { query: { limit: 200 } } }))) as Queue,
    refetchInterval: 15_000,
  });
  const now = useNow(1000);
  if (queue.isPending) return <p>Loading …</p>;
  if (queue.isError) return <Failure error={queue.error} again={() => void queue.refetch()} />;
  const { entries, total_waiting, total_running, scheduling } = queue.data;
  const rough = entries.some((e) => e.estimate_rough && e.estimated_start_at !== null);
  return (
    <>
      <h1>Queue</h1>
      <p className="facts">
        {total_waiting} waiting, {total_running} running.
      </p>
      <SchedulingPanel scheduling={scheduling} waiting={total_waiting} admin={user.admin} now={now} />
      {entries.length === 0 ? (
        <Empty>Nothing waits: what is submitted now starts at once if a machine has room.</Empty>
      ) : (
        <div className="scroll">
          <table className="wide" aria-label="Waiting tasks">
            <thead>
              <tr>
                <th>Place</th>
                <th>Task</th>
                <th>Owner</th>
                <th>Asks for</th>
                <th>Timeout</th>
                <th>Waits</th>
                <th title="An estimate; what comes in between may change it">Starts about</th>
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
                    {e.estimated_start_at === null ? (
                      "–"
                    ) : (
                      <>
                        {e.estimate_rough && <abbr title="A rough figure: no machine is reserved yet">~ </abbr>}
                        <When at={e.estimated_start_at} now={now} />
                      </>
                    )}
                  </td>
                  <td data-label="no later than">{e.promised_start_at === null ? "–" : <When at={e.promised_start_at} now={now} up />}</td>
                  <td className="why">
                    {e.waits.map((wait, i) => (
                      <div key={i}>
                        <Told text={wait.sentence} />
                      </div>
                    ))}
                    <Terms terms={e.terms} now={now} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rough && <p className="note">~ a rough figure: no machine is reserved for that task yet.</p>}
      {total_waiting > entries.length && <p className="note">The first {entries.length} are shown.</p>}
    </>
  );
}
