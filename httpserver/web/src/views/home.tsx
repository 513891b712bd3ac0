/** The first page: who has the GPUs, one's own jobs, and what waits. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";

import { type Job, type NodeList, type Queue, type User, api, body } from "../api/client";
import { keys } from "../api/events";
import { learnNames } from "../api/names";
import { useNodes } from "../api/nodes";
import { Empty, Meter, State, useNow, useTitle } from "../components/basics";
import { FreeNow, GpuTiles, GpusHeld, MissingBookings } from "../components/bookings";
import { FirstSteps } from "../components/first-steps";
import { Told } from "../components/told";
import { Moment, When } from "../components/when";
import { Trouble, shows } from "../components/kept-answer";
import { gpusByJob } from "../domain/bookings";
import { size } from "../domain/format";
import { visible } from "../domain/paths";
import { jobTone } from "../domain/states";

const LATEST = 8;
const FIRST = 10;

export function Home({ user }: { user: User }) {
  useTitle("Home");
  const nodes = useNodes();
  const now = useNow(1000);
  return (
    <>
      <div className="title-row">
        <h1>Home</h1>
        <Link href="/submit" className="button main">
          Submit a job
        </Link>
      </div>
      {(nodes.data?.notices ?? []).map((sentence) => (
        <p className="reason" role="status" key={sentence}>
          <Told text={sentence} />
        </p>
      ))}
      <div className="halves">
        <section aria-labelledby="home-gpus">
          <h2 id="home-gpus">GPUs</h2>
          <Trouble of={nodes} />
          {nodes.isPending && <p>Loading …</p>}
          {nodes.data !== undefined && <Cluster list={nodes.data} now={now} admin={user.admin} />}
        </section>
        <div className="mine">
          <section aria-labelledby="home-jobs">
            <h2 id="home-jobs">My jobs</h2>
            <Latest user={user} list={nodes.data} now={now} />
          </section>
          <section aria-labelledby="home-queue">
            <h2 id="home-queue">What waits</h2>
            <Waiting now={now} />
          </section>
        </div>
      </div>
    </>
  );
}

function Cluster({ list, now, admin }: { list: NodeList; now: number; admin: boolean }) {
  const none = list.nodes.length === 0;
  return (
    <>
      <FreeNow list={list} now={now} />
      <MissingBookings list={list} />
      {none && <Empty>{admin ? "Start a machine with “headway serve worker”." : "Tasks wait until an administrator starts one."}</Empty>}
      <GpuTiles nodes={list.nodes} now={now} />
      {!none && <Booked list={list} />}
    </>
  );
}

/** CPUs and memory of all machines together. */
function Booked({ list }: { list: NodeList }) {
  const booked = list.nodes.flatMap((node) => node.booked ?? []);
  if (booked.length === 0) return null;
  const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
  const [cpus, ofCpus] = [sum(booked.map((b) => b.cpus)), sum(list.nodes.map((node) => node.cpus))];
  const [memory, ofMemory] = [sum(booked.map((b) => b.memory_bytes)), sum(list.nodes.map((node) => node.memory_bytes))];
  return (
    <div className="meters beside-another">
      <Meter used={cpus} of={ofCpus} text={`CPUs: ${Number(cpus.toFixed(2))} of ${ofCpus} booked`} />
      <Meter used={memory} of={ofMemory} text={`memory: ${size(memory)} of ${size(ofMemory)} booked`} />
    </div>
  );
}

function Latest({ user, list, now }: { user: User; list: NodeList | undefined; now: number }) {
  const client = useQueryClient();
  // In pages, as the list of jobs: events bring both up to date by the same way.
  const jobs = useInfiniteQuery({
    queryKey: [...keys.jobs, "latest", user.name],
    initialPageParam: "",
    queryFn: async ({ signal }) => {
      const page = await body(api.GET("/api/v1/jobs", { params: { query: { limit: LATEST, owner: user.name } }, signal }));
      learnNames(client, page?.jobs.map((job) => [job.id, job.name]) ?? []);
      return page;
    },
    getNextPageParam: () => undefined,
  });
  const rows: Job[] = jobs.data?.pages.flatMap((page) => page?.jobs ?? []) ?? [];
  const held = gpusByJob(list);
  if (jobs.isPending) return <p>Loading …</p>;
  if (jobs.data === undefined || !shows(jobs)) return <Trouble of={jobs} />;
  if (rows.length === 0) {
    return <FirstSteps user={user} />;
  }
  return (
    <>
      <Trouble of={jobs} />
      <table className="wide short" aria-label="My latest jobs">
        <thead>
          <tr>
            <th>State</th>
            <th>Name</th>
            <th>Tasks</th>
            <th title="GPUs that its running tasks hold now">GPUs now</th>
            <th>Submitted</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((job) => (
            <tr key={job.id}>
              <td>
                <State state={job.state} tone={jobTone[job.state]} />
              </td>
              <td className="name">
                <Link href={`/jobs/${job.id}`}>{visible(job.name)}</Link>
              </td>
              <td className="number" data-label="tasks">
                {job.tasks_by_state.SUCCEEDED ?? 0}/{job.task_count}
              </td>
              <td className="number" data-label="GPUs">
                <GpusHeld count={held === null ? null : (held.get(job.id) ?? 0)} />
              </td>
              <td className="number"><Moment at={job.submitted_at} now={now} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      <Link href="/jobs">All jobs</Link>
    </>
  );
}

function Waiting({ now }: { now: number }) {
  const client = useQueryClient();
  const queue = useQuery({
    queryKey: [...keys.queue, "first"],
    queryFn: async ({ signal }) => {
      const page = (await body(api.GET("/api/v1/queue", { params: { query: { limit: FIRST, running: 0 } }, signal }))) as Queue;
      learnNames(
        client,
        page.entries.map((entry) => [entry.job_id, entry.job_name]),
      );
      return page;
    },
    refetchInterval: 15_000,
  });
  if (queue.isPending) return <p>Loading …</p>;
  if (queue.data === undefined || !shows(queue)) return <Trouble of={queue} />;
  const { entries, total_waiting, total_running } = queue.data;
  if (entries.length === 0) return <Empty>No task waits. A new task starts at once if a machine has enough free CPUs, memory and GPUs.</Empty>;
  return (
    <>
      <Trouble of={queue} />
      <table className="wide short" aria-label="First waiting tasks">
        <thead>
          <tr>
            <th>Place</th>
            <th>Task</th>
            <th>Owner</th>
            <th>GPUs</th>
            <th>Starts about</th>
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
                  {visible(e.job_name)} / {e.task}
                </Link>
              </td>
              <td>{e.owner}</td>
              <td className="number" data-label="GPUs">
                {e.resources.gpus || (e.resources.gpu_share_bytes ? size(e.resources.gpu_share_bytes) : "–")}
              </td>
              <td data-label="starts about">
                {e.estimate_rough && e.estimated_start_at !== null && <abbr title="A rough estimate">~ </abbr>}
                {e.estimated_start_at === null ? "–" : <When at={e.estimated_start_at} now={now} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Link href="/queue">
        The whole queue: {total_waiting} waiting, {total_running} running
      </Link>
    </>
  );
}
