/** Live changes: one event stream a page, merged into what is already on screen. */
import type { QueryClient } from "@tanstack/react-query";

import type { Attempt, Job, JobDetail, Node, Task } from "./client";

export const keys = {
  me: ["me"] as const,
  jobs: ["jobs"] as const,
  job: (id: string) => ["job", id] as const,
  queue: ["queue"] as const,
  nodes: ["nodes"] as const,
};

/** A job's newer view over an older one; the older one's tasks stay. */
export function mergeJob<T extends Job>(old: T, fresh: Job): T {
  return fresh.version >= old.version ? { ...old, ...fresh } : old;
}

/** A task's change into a job's detail: attempts and place come by other events. */
export function mergeTask(detail: JobDetail, task: Task): JobDetail {
  const index = detail.tasks.findIndex((t) => t.name === task.name);
  const old = detail.tasks[index];
  if (old === undefined) return detail;
  const tasks = detail.tasks.slice();
  const waiting = task.state === "QUEUED" || task.state === "BLOCKED";
  tasks[index] = {
    ...task,
    attempts: old.attempts,
    place: waiting ? old.place : null,
    waits: waiting ? (task.waits.length > 0 ? task.waits : old.waits) : [],
  };
  return { ...detail, tasks };
}

export function mergeAttempt(detail: JobDetail, name: string, attempt: Attempt): JobDetail {
  const index = detail.tasks.findIndex((t) => t.name === name);
  const task = detail.tasks[index];
  if (task === undefined) return detail;
  const at = task.attempts.findIndex((a) => a.number === attempt.number);
  const attempts = task.attempts.slice();
  if (at >= 0) attempts[at] = attempt;
  else attempts.push(attempt);
  const tasks = detail.tasks.slice();
  tasks[index] = { ...task, attempts };
  return { ...detail, tasks };
}

export type Connection = "connecting" | "live" | "broken";

export function listen(client: QueryClient, onConnection: (state: Connection) => void): () => void {
  const source = new EventSource("/api/v1/events");
  let queueTimer: ReturnType<typeof setTimeout> | undefined;

  const on = <T>(name: string, handle: (data: T) => void): void => {
    source.addEventListener(name, (event) => handle(JSON.parse((event as MessageEvent<string>).data) as T));
  };
  const detail = (id: string, change: (old: JobDetail) => JobDetail): void => {
    client.setQueryData<JobDetail>(keys.job(id), (old) => (old === undefined ? old : change(old)));
  };

  source.onopen = () => onConnection("live");
  source.onerror = () => onConnection(source.readyState === EventSource.CLOSED ? "broken" : "connecting");
  on<Job>("job", (job) => {
    detail(job.id, (old) => mergeJob(old, job));
    client.setQueriesData<{ pages: { jobs: Job[] }[]; pageParams: unknown[] }>({ queryKey: keys.jobs }, (old) => {
      if (old === undefined) return old;
      const pages = old.pages.map((page) => ({ ...page, jobs: page.jobs.map((j) => (j.id === job.id ? mergeJob(j, job) : j)) }));
      return { ...old, pages };
    });
    const known = client
      .getQueriesData<{ pages: { jobs: Job[] }[] }>({ queryKey: keys.jobs })
      .some(([, data]) => data?.pages.some((p) => p.jobs.some((j) => j.id === job.id)));
    if (!known) void client.invalidateQueries({ queryKey: keys.jobs });
  });
  on<{ job_id: string; task: Task }>("task", ({ job_id, task }) => detail(job_id, (old) => mergeTask(old, task)));
  on<{ job_id: string; task: string; attempt: Attempt }>("attempt", ({ job_id, task, attempt }) =>
    detail(job_id, (old) => mergeAttempt(old, task, attempt)),
  );
  on<Node>("node", (node) => {
    client.setQueryData<Node[]>(keys.nodes, (old) => {
      if (old === undefined) return old;
      const others = old.filter((n) => n.id !== node.id);
      return [...others, node].sort((a, b) => a.id.localeCompare(b.id));
    });
  });
  on<{ id: string }>("node_gone", ({ id }) => {
    client.setQueryData<Node[]>(keys.nodes, (old) => old?.filter((n) => n.id !== id));
  });
  on<unknown>("queue", () => {
    // A burst of changes asks once.
    queueTimer ??= setTimeout(() => {
      queueTimer = undefined;
      void client.invalidateQueries({ queryKey: keys.queue });
    }, 800);
  });
  on<unknown>("reset", () => void client.invalidateQueries());
  return () => {
    clearTimeout(queueTimer);
    source.close();
  };
}
