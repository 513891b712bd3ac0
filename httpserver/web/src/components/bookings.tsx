/** Who has what: GPUs as tiles, running tasks as a table. */
import { useState } from "react";
import { Link } from "wouter";

import type { Booking, Node, NodeList } from "../api/client";
import { freeNow, freeShare, gpuWord, taskAddress } from "../domain/bookings";
import { gpus, size, span } from "../domain/format";
import { visible } from "../domain/paths";
import type { Known } from "../domain/known";
import { Meter } from "./basics";
import { From } from "./kept-answer";
import { OutsideProcesses } from "./outside-processes";
import { When } from "./when";

type Gpu = Node["gpus"][number];

const FEW = 10;

/** How many GPUs are free, and when the next one is at the latest. */
export function FreeNow({ list, now }: { list: NodeList; now: number }) {
  const next = list.gpus?.next_free_at ?? null;
  return (
    <p className="facts">
      <strong>{freeNow(list)}</strong>
      {next !== null && (
        <>
          {" "}
          The next is free at <When at={next} now={now} up /> at the latest.
        </>
      )}
    </p>
  );
}

/** What could not be had now. */
export function MissingBookings({ list }: { list: Known<NodeList> }) {
  return (list.missing ?? []).map((one) => (
    <p className="reason" key={one.service}>
      {one.sentence} {list.known_at !== undefined && <From at={list.known_at} />}
    </p>
  ));
}

export function GpuTiles({ nodes, now }: { nodes: readonly Node[]; now: number }) {
  return nodes
    .filter((node) => node.gpus.length > 0)
    .map((node) => (
      <section key={node.id} className="tiles-of" aria-label={`GPUs of ${node.id}`}>
        <h3>{node.id}</h3>
        {node.booked?.closed && <p className="note">Takes no new tasks: {node.booked.closed}.</p>}
        <ul className="tiles">
          {node.gpus.map((gpu) => (
            <Tile key={gpu.uuid} gpu={gpu} now={now} />
          ))}
        </ul>
      </section>
    ));
}

function Tile({ gpu, now }: { gpu: Gpu; now: number }) {
  const { word, tone } = gpuWord(gpu);
  const booking = gpu.booking ?? null;
  return (
    <li className={`tile ${tone}`} title={gpu.uuid}>
      <div className="tile-head">
        <span>
          GPU {gpu.index}: {gpu.model}
          {gpu.simulated && !/simulated/i.test(gpu.model) && " (simulated)"}
        </span>
        <span className={`state ${tone}`}>{word}</span>
      </div>
      {booking !== null && (
        <>
          <Holder booking={booking} />
          <div className="facts">
            <span>{booking.owner}</span>, <Until booking={booking} now={now} />
          </div>
        </>
      )}
      <Shares gpu={gpu} now={now} />
      {gpu.note && <div className="note">{gpu.note}</div>}
      <OutsideProcesses gpu={gpu} />
      {gpu.utilisation !== null && <Meter used={gpu.utilisation} of={1} text={`in use: ${Math.round(gpu.utilisation * 100)} %`} />}
    </li>
  );
}

/** Who has how much of a GPU that is shared, and what is free of it. */
export function Shares({ gpu, now }: { gpu: Gpu; now: number }) {
  if (!gpu.shared) return null;
  return (
    <>
      {(gpu.shares ?? []).map((one) => (
        <div key={`${one.job_id}/${one.task}`}>
          <Holder booking={one} />
          <div className="facts">
            <span>{size(one.resources.gpu_share_bytes ?? 0)}</span>, <span>{one.owner}</span>, <Until booking={one} now={now} />
          </div>
        </div>
      ))}
      <div className="note">{freeShare(gpu)}</div>
    </>
  );
}

/** The task by the names that people gave. */
export function Holder({ booking: b }: { booking: Booking }) {
  const job = visible(b.job_name);
  return (
    <Link href={taskAddress(b)} className="holder" title={`${job} / ${b.task} (${b.job_id})`}>
      <span>{job}</span> <span>/ {b.task}</span>
    </Link>
  );
}

/** Until when it holds what it has. */
export function Until({ booking, now, bare = false }: { booking: Booking; now: number; bare?: boolean }) {
  if (booking.overdue) return <span title="Its time is over. Its machine has not said yet that it ended.">should have ended</span>;
  return (
    <span title="All that it holds is free by then: its timeout, with the time to start and stop, and a reserve for retries">
      {!bare && "ends by "}
      <When at={booking.ends_by_at} now={now} up />
    </span>
  );
}

/** Running tasks, a row each; the next to end stand first. */
export function RunningTable({ running, of, now }: { running: readonly Booking[]; of: number; now: number }) {
  const [all, setAll] = useState(false);
  const shown = all ? running : running.slice(0, FEW);
  return (
    <>
      <div className="scroll">
        <table className="wide running" aria-label="Running tasks">
          <thead>
            <tr>
              <th>Task</th>
              <th>Owner</th>
              <th>GPUs</th>
              <th>CPUs</th>
              <th>Memory</th>
              <th>Node</th>
              <th>Since</th>
              <th>Ends by</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((b) => (
              <tr key={`${b.job_id}/${b.task}`}>
                <td className="holds">
                  <Holder booking={b} />
                </td>
                <td>{b.owner}</td>
                <td className="number" data-label="GPUs">
                  {b.resources.gpus || (b.resources.gpu_share_bytes ? size(b.resources.gpu_share_bytes) : "–")}
                </td>
                <td className="number" data-label="CPUs">
                  {b.resources.cpus}
                </td>
                <td className="number" data-label="memory">
                  {size(b.resources.memory_bytes)}
                </td>
                <td data-label="node">{b.node_id}</td>
                <td className="number" data-label="since">
                  {span(now - b.since_at)}
                </td>
                <td data-label="ends by">
                  <Until booking={b} now={now} bare />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {running.length > FEW && (
        <button className="small" onClick={() => setAll(!all)} aria-expanded={all}>
          {all ? "Show fewer" : `Show ${running.length === of ? "all" : "the first"} ${running.length}`}
        </button>
      )}
      {all && of > running.length && <p className="note">Of {of} running tasks, those that end next.</p>}
    </>
  );
}

/** "2 GPUs", or a dash where a job holds none; null: not known now. */
export function GpusHeld({ count }: { count: number | null }) {
  if (count === null) return <span title="Who holds the GPUs is not known now">?</span>;
  return count > 0 ? <span title={`Its tasks hold ${gpus(count)} now`}>{count}</span> : <>–</>;
}
