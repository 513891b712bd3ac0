/** Live changes, merged into what is already on screen. */
import type { QueryClient } from "@tanstack/react-query";

import { withNode } from "../domain/bookings";
import { taskEnded } from "../domain/states";
import { type Attempt, type Job, type JobDetail, type Node, type NodeList, type Task, tellSignedOut } from "./client";
import { setConnection } from "./connection";
import { listenTo } from "./link";

export const keys = {
  me: ["me"] as const,
  jobs: ["jobs"] as const,
  job: (id: string) => ["job", id] as const,
  task: (id: string, name: string) => ["task", id, name] as const,
  spec: (id: string, name: string) => ["spec", id, name] as const,
  logSizes: (id: string, name: string, attempt: number, ended: boolean) => ["log sizes", id, name, attempt, ended] as const,
  queue: ["queue"] as const,
  wholeQueue: ["whole queue"] as const,
  jobName: (id: string) => ["job name", id] as const,
  decisions: (id: string, name: string) => ["decisions", id, name] as const,
  advice: ["advice"] as const,
  nodes: ["nodes"] as const,
  images: ["images"] as const,
  image: (ref: string) => ["images", "one", ref] as const,
  uploads: (kind: string) => ["uploads", kind] as const,
  files: ["files"] as const,
  folder: (path: string) => ["files", "in", path] as const,
  space: ["files", "space"] as const,
  trash: ["files", "trash"] as const,
  datasets: ["datasets"] as const,
  dataset: (name: string) => ["datasets", "one", name] as const,
  groups: ["groups"] as const,
  accounts: ["accounts"] as const,
  registries: ["registries"] as const,
  secrets: ["secrets"] as const,
  measured: (id: string, name: string, attempt: number, ended: boolean, zoom: { readonly from: number; readonly to: number } | null) =>
    ["measured", id, name, attempt, ended, zoom] as const,
  nodeMeasured: (id: string, span: string, zoom: { readonly from: number; readonly to: number } | null) => ["measured", "node", id, span, zoom] as const,
};

/** A job's newer view over an older one; the older one's tasks stay. */
export function mergeJob<T extends Job>(old: T, fresh: Job): T {
  return fresh.version >= old.version ? { ...old, ...fresh } : old;
}

/** A task's change over what is known: attempts and its place come by other ways. Old news changes nothing. */
export function mergeTask(old: Task, fresh: Task): Task {
  if (fresh.generation < old.generation) return old;
  const same = fresh.generation === old.generation;
  if (same && (fresh.attempt < old.attempt || (taskEnded(old.state) && !taskEnded(fresh.state)))) return old;
  const waiting = fresh.state === "QUEUED" || fresh.state === "BLOCKED";
  return {
    ...fresh,
    attempts: old.attempts,
    place: waiting ? old.place : null,
    waits: waiting ? (fresh.waits.length > 0 ? fresh.waits : old.waits) : [],
  };
}

export function mergeAttempt(task: Task, attempt: Attempt): Task {
  const at = task.attempts.findIndex((a) => a.number === attempt.number);
  const attempts = task.attempts.slice();
  if (at >= 0) attempts[at] = attempt;
  else attempts.push(attempt);
  return { ...task, attempts };
}

/** What has come since the last picture; a burst of thousands of changes is one new picture. */
export interface Changes {
  readonly jobs: Map<string, Job>;
  readonly tasks: Map<string, Map<string, ((task: Task) => Task)[]>>;
}

export const noChanges = (): Changes => ({ jobs: new Map(), tasks: new Map() });

export function noteTask(changes: Changes, job: string, name: string, change: (task: Task) => Task): void {
  const ofJob = changes.tasks.get(job) ?? new Map<string, ((task: Task) => Task)[]>();
  changes.tasks.set(job, ofJob);
  const ofTask = ofJob.get(name);
  if (ofTask === undefined) ofJob.set(name, [change]);
  else ofTask.push(change);
}

/** The job's detail with all changes in one step. */
export function applyTo(detail: JobDetail, changes: Changes): JobDetail {
  const job = changes.jobs.get(detail.id);
  const ofTasks = changes.tasks.get(detail.id);
  let next = job === undefined ? detail : mergeJob(detail, job);
  if (ofTasks !== undefined) {
    const tasks = next.tasks.map((task) => (ofTasks.get(task.name) ?? []).reduce((t, change) => change(t), task));
    next = { ...next, tasks };
  }
  return next;
}

interface Pages {
  pages: { jobs: Job[] }[];
  pageParams: unknown[];
}

export function withoutJob<T extends { pages: { jobs: Job[] }[] }>(old: T, id: string): T {
  return { ...old, pages: old.pages.map((page) => ({ ...page, jobs: page.jobs.filter((job) => job.id !== id) })) };
}

/** How often what comes without a pause is drawn; what comes alone is drawn at once, with what comes along. */
const DRAW_MS = 100;
const ALONG_MS = 10;
/** Lists that may have changed are asked for again so often at most. */
const ASK_MS = 1000;
/** Who has what is asked for soon after a change, and then no more often than this: every tab does. */
const SOON_MS = 150;
const BOOKINGS_MS = 2000;

export function listen(client: QueryClient): () => void {
  let changes = noChanges();
  let drawing: ReturnType<typeof setTimeout> | undefined;
  const asking = new Map<string, ReturnType<typeof setTimeout>>();

  const handlers = new Map<string, (data: never) => void>();
  const on = <T>(name: string, handle: (data: T) => void): void => {
    handlers.set(name, handle);
  };
  /** A tab that nobody sees asks for nothing: fifty of them would ask at once. */
  const unseen = new Map<string, () => void>();
  const whenSeen = (key: string, ask: () => void): void => {
    if (document.hidden) unseen.set(key, ask);
    else ask();
  };
  const comesToSight = (): void => {
    if (document.hidden) return;
    unseen.forEach((ask) => ask());
    unseen.clear();
  };
  document.addEventListener("visibilitychange", comesToSight);
  const askAgain = (key: readonly [string]): void => {
    if (asking.has(key[0])) return;
    const timer = setTimeout(() => {
      asking.delete(key[0]);
      whenSeen(key[0], () => void client.invalidateQueries({ queryKey: key }));
    }, ASK_MS);
    asking.set(key[0], timer);
  };
  let bookingsAsked = 0;
  const askForBookings = (): void => {
    const key = keys.nodes[0];
    if (asking.has(key)) return;
    const wait = Math.max(SOON_MS, bookingsAsked + BOOKINGS_MS - Date.now());
    const timer = setTimeout(() => {
      asking.delete(key);
      bookingsAsked = Date.now();
      whenSeen(key, () => void client.invalidateQueries({ queryKey: keys.nodes }));
    }, wait);
    asking.set(key, timer);
  };
  let drawnAt = 0;
  const draw = (): void => {
    drawing = undefined;
    drawnAt = Date.now();
    const now = changes;
    changes = noChanges();
    for (const id of new Set([...now.jobs.keys(), ...now.tasks.keys()])) {
      client.setQueryData<JobDetail>(keys.job(id), (old) => (old === undefined ? old : applyTo(old, now)));
    }
    if (now.jobs.size === 0) return;
    const unknown = new Set(now.jobs.keys());
    client.setQueriesData<Pages>({ queryKey: keys.jobs }, (old) => {
      if (old === undefined) return old;
      const pages = old.pages.map((page) => ({
        ...page,
        jobs: page.jobs.map((job) => {
          unknown.delete(job.id);
          const fresh = now.jobs.get(job.id);
          return fresh === undefined ? job : mergeJob(job, fresh);
        }),
      }));
      return { ...old, pages };
    });
    if (unknown.size > 0) askAgain(keys.jobs);
  };
  const drawSoon = (): void => {
    drawing ??= setTimeout(draw, Math.max(ALONG_MS, drawnAt + DRAW_MS - Date.now()));
  };

  on<Job>("job", (job) => {
    const seen = changes.jobs.get(job.id);
    if (seen === undefined || job.version >= seen.version) changes.jobs.set(job.id, job);
    drawSoon();
  });
  on<{ id: string }>("job_gone", ({ id }) => {
    changes.jobs.delete(id);
    changes.tasks.delete(id);
    client.setQueriesData<Pages>({ queryKey: keys.jobs }, (old) => old && withoutJob(old, id));
    // Who looks at it reads from the server what became of it.
    void client.invalidateQueries({ queryKey: keys.job(id) });
  });
  on<{ job_id: string; task: Task }>("task", ({ job_id, task }) => {
    noteTask(changes, job_id, task.name, (old) => mergeTask(old, task));
    drawSoon();
  });
  on<{ job_id: string; task: string; attempt: Attempt }>("attempt", ({ job_id, task, attempt }) => {
    noteTask(changes, job_id, task, (old) => mergeAttempt(old, attempt));
    drawSoon();
    askForBookings();
  });
  on<Node>("node", (node) => {
    client.setQueryData<NodeList>(keys.nodes, (old) => old && withNode(old, node));
  });
  on<{ id: string }>("node_gone", ({ id }) => {
    client.setQueryData<NodeList>(keys.nodes, (old) => old && { ...old, nodes: old.nodes.filter((n) => n.id !== id) });
  });
  on<unknown>("queue", () => askAgain(keys.queue));
  on<unknown>("reset", () => whenSeen("", () => void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== "me" })));
  const stop = listenTo({
    connection: setConnection,
    events: (events) => events.forEach(({ name, data }) => handlers.get(name)?.(JSON.parse(data) as never)),
    signedOut: tellSignedOut,
  });
  return () => {
    clearTimeout(drawing);
    asking.forEach((timer) => clearTimeout(timer));
    document.removeEventListener("visibilitychange", comesToSight);
    stop();
  };
}
