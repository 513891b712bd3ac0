import { useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy } from "react";
import { Link } from "wouter";

import { useAct } from "../api/act";
import { type Node, api, body } from "../api/client";
import { keys } from "../api/events";
import { useNodes } from "../api/nodes";
import { patiently } from "../api/reach";
import { GPU_COLUMNS } from "../api/generated/gpu-columns";
import { SearchField, useAddress } from "../components/address";
import { Empty, Failure, Meter, Sentence, State, useNow, useTitle } from "../components/basics";
import { FreeNow, Holder, MissingBookings, Shares, Until } from "../components/bookings";
import { HelpLink } from "../components/help-link";
import { DrainButton } from "../components/drain-button";
import { OutsideProcesses } from "../components/outside-processes";
import { Trouble, shows } from "../components/kept-answer";
import { textIn } from "../domain/address";
import { gpuTold } from "../domain/bookings";
import { gpuCell, gpuPassing } from "../domain/gpu";
import { size, span, ulimits } from "../domain/format";
import { drainProgress } from "../domain/drain";
import { firstPress } from "../domain/press";
import { admissionText, admissionTone, healthTone } from "../domain/states";

// With its charts' library: loaded where one machine is looked at.
const NodeUse = lazy(() => patiently(() => import("../components/node-use")).then((m) => ({ default: m.NodeUse })));

/** More machines than this get a search above them. */
const FEW = 3;

/** By what a machine is found: its name, its GPUs, and who and what is on them. */
const wordsOf = (node: Node): string[] => [
  node.id,
  ...node.gpus.flatMap((gpu) => [gpu.model, gpu.booking?.owner ?? "", gpu.booking?.job_name ?? "", gpu.booking?.task ?? "", ...(gpu.shares ?? []).flatMap((one) => [one.owner, one.job_name, one.task])]),
];

type Action = "cordon" | "uncordon" | "drain";

/** All machines; `id`: one of them, with what it used over time. */
export function Nodes({ admin, id }: { admin: boolean; id?: string }) {
  useTitle(id === undefined ? "Nodes" : `Node ${id}`);
  const client = useQueryClient();
  const nodes = useNodes();
  const [given, change] = useAddress();
  const text = textIn(given.get("q"));
  const now = useNow(5000);
  const act = useAct(
    ({ id, action }: { id: string; action: Action }) =>
      body(api.POST(`/api/v1/nodes/{id}/${action}`, { params: { path: { id } }, body: { note: "" } })),
    { after: () => client.invalidateQueries({ queryKey: keys.nodes }) },
  );
  const pressed = (id: string, action: Action) => (event: { readonly detail: number }) => {
    if (firstPress(event)) act.run({ id, action });
  };
  if (nodes.isPending) return <p>Loading …</p>;
  if (nodes.data === undefined || !shows(nodes)) return <Trouble of={nodes} />;
  const wanted = text.trim().toLowerCase();
  const shown = nodes.data.nodes.filter((node) => (id === undefined ? wordsOf(node).some((word) => word.toLowerCase().includes(wanted)) : node.id === id));
  return (
    <>
      <div className="title-row">
        <div className="helped">
          <h1>{id === undefined ? "Nodes" : `Node ${id}`}</h1>
          <HelpLink topic="gpu-task" />
        </div>
        {id !== undefined && <Link href="/nodes">All nodes</Link>}
        {id === undefined && (nodes.data.nodes.length > FEW || text !== "") && (
          <div className="filters">
            <SearchField placeholder="machine, GPU, owner or job" value={text} onText={(q) => change({ q }, { typed: true })} />
          </div>
        )}
      </div>
      {id === undefined && (
        <>
          <p className="facts">
            The machines that run tasks. What is booked is kept for tasks that run, whether or not they use it; what is in use is measured.
          </p>
          <FreeNow list={nodes.data} now={now} />
        </>
      )}
      <Trouble of={nodes} />
      <MissingBookings list={nodes.data} />
      {act.error && <Failure error={act.error} />}
      {nodes.data.nodes.length === 0 && <Empty>Start a machine with “headway serve worker”.</Empty>}
      {nodes.data.nodes.length > 0 && shown.length === 0 && <Empty>{id === undefined ? "No machine matches." : `There is no machine “${id}”.`}</Empty>}
      <div className={id === undefined ? "nodes" : "nodes one"}>
        {shown.map((node) => (
          <article className="node" key={node.id}>
            <div className="title-row">
              <h2>
                {id === undefined ? <Link href={`/nodes/${encodeURIComponent(node.id)}`}>{node.id}</Link> : node.id}{" "}
                <State state={node.health} tone={healthTone[node.health]} />{" "}
                {node.admission !== "OPEN" && <State state={admissionText[node.admission]} tone={admissionTone[node.admission]} />}
              </h2>
              {admin && (
                <div className="actions">
                  {node.admission === "OPEN" ? (
                    <>
                      <button
                        disabled={act.busy}
                        onClick={pressed(node.id, "cordon")}
                        title="Start no new tasks here. Running tasks go on."
                      >
                        Close for new tasks
                      </button>
                      <button
                        disabled={act.busy}
                        onClick={pressed(node.id, "drain")}
                        title="Start no new tasks here, and show when the last running task has ended."
                      >
                        Close and empty
                      </button>
                    </>
                  ) : (
                    <button disabled={act.busy} onClick={pressed(node.id, "uncordon")}>
                      Open again
                    </button>
                  )}
                  {node.admission !== "DRAINED" && (
                    <DrainButton id={node.id} deadline={node.drain?.until_at ?? null} busy={act.busy} />
                  )}
                </div>
              )}
            </div>
            <p className="facts">
              {node.runtime === "scripted" ? "scripted runtime: tasks are only simulated here" : `${node.runtime} ${node.engine_version}`} ·{" "}
              {node.architecture} · {node.booked?.tasks ?? node.live_attempts} running · seen {span(now - node.seen_at)} ago
              {node.gpu_passing && ` · GPUs by ${gpuPassing(node.gpu_passing)}`}
              {Object.keys(node.most_ulimits).length > 0 && ` · ulimits up to ${ulimits(node.most_ulimits)}`}
            </p>
            {node.health !== "READY" && node.health_sentence && <p className="reason">{node.health_sentence}</p>}
            {node.note && <p className="note">{node.note}</p>}
            {node.drain && <p className="note">{drainProgress(node.drain, node.admission, now)}</p>}
            {node.conditions.map((c) => (
              <p key={c.word} className={c.blocks_work || ["gpu_unavailable", "gpu_faulty"].includes(c.word) ? "reason" : "note"}>
                <Sentence text={c.sentence} />
              </p>
            ))}
            {node.booked?.closed && node.health === "READY" && <p className="note">Takes no new tasks: {node.booked.closed}.</p>}
            <div className="meters">
              {node.booked && <Meter used={node.booked.cpus} of={node.cpus} text={`CPUs: ${node.booked.cpus} of ${node.cpus} booked`} />}
              <Meter used={node.cpus_used} of={node.cpus} text={`CPUs: ${node.cpus_used?.toFixed(1) ?? "–"} of ${node.cpus} in use`} />
              {node.booked && (
                <Meter
                  used={node.booked.memory_bytes}
                  of={node.memory_bytes}
                  text={`memory: ${size(node.booked.memory_bytes)} of ${size(node.memory_bytes)} booked`}
                />
              )}
              <Meter
                scarce
                used={node.memory_used_bytes}
                of={node.memory_total_bytes ?? node.memory_bytes}
                text={`memory: ${size(node.memory_used_bytes)} of ${size(node.memory_total_bytes ?? node.memory_bytes)} used, ${size(node.memory_bytes)} for tasks`}
              />
              {node.disk_total_bytes !== null && node.disk_free_bytes !== null && (
                <Meter
                  scarce
                  used={node.disk_total_bytes - node.disk_free_bytes}
                  of={node.disk_total_bytes}
                  text={`disk: ${size(node.disk_free_bytes)} free of ${size(node.disk_total_bytes)}`}
                />
              )}
            </div>
            {node.gpus.length > 0 && (
              <div className="scroll">
                <table className="wide">
                  <thead>
                    <tr>
                      <th>GPU</th>
                      {GPU_COLUMNS.map((column) => (
                        <th key={column.key}>{column.head}</th>
                      ))}
                      <th>State</th>
                      <th>Booked by</th>
                    </tr>
                  </thead>
                  <tbody>
                    {node.gpus.map((gpu) => (
                      <tr key={gpu.uuid}>
                        <td className="holds" title={gpu.uuid}>
                          {gpu.index}: {gpu.model}
                          {gpu.simulated && !/simulated/i.test(gpu.model) && " (simulated)"}
                        </td>
                        {GPU_COLUMNS.map((column) => (
                          <td key={column.key} data-label={column.head.toLowerCase()}>
                            {gpuCell(gpu, column)}
                          </td>
                        ))}
                        <td data-label="state">
                          {gpuTold(gpu)}
                          <OutsideProcesses gpu={gpu} />
                        </td>
                        <td className="holds">
                          {gpu.shared && !gpu.booking ? (
                            <Shares gpu={gpu} now={now} />
                          ) : gpu.booking ? (
                            <>
                              <Holder booking={gpu.booking} />
                              <div className="facts">
                                {gpu.booking.owner}, <Until booking={gpu.booking} now={now} />
                              </div>
                            </>
                          ) : (
                            "–"
                          )}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            {node.events.length > 0 && (
              <details>
                <summary>what happened to this machine</summary>
                <ul>
                  {node.events.toReversed().map((event) => (
                    <li key={`${event.at} ${event.word}`}>
                      {span(now - event.at)} ago: {event.sentence}
                    </li>
                  ))}
                </ul>
              </details>
            )}
            {node.images.length > 0 && (
              <details>
                <summary>
                  {node.images.length} image{node.images.length === 1 ? "" : "s"} ready here
                </summary>
                <ul>
                  {node.images.map((image) => (
                    <li key={image}>
                      <code>{image}</code>
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </article>
        ))}
      </div>
      {id !== undefined &&
        shown.map((node) => (
          <Suspense fallback={<p>Loading …</p>} key={node.id}>
            <NodeUse node={node} />
          </Suspense>
        ))}
    </>
  );
}
