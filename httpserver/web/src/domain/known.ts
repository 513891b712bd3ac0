/** What was known of parts that an answer lacks: it stays on screen, with the moment that it is from. */
import type { JobDetail, NodeList, Task } from "../api/client";
import { keepBookings } from "./bookings";

/** `known_at`: what the answer says to be missing is shown as it was then; absent: it never was known, or it is now. */
export type Known<T> = T & { readonly known_at?: number };

/** `at`: when `old` came. */
export function keepTasks(old: Known<JobDetail> | undefined, fresh: JobDetail, at: number): Known<JobDetail> {
  if (old === undefined || fresh.missing.length === 0) return fresh;
  const known = new Map(old.tasks.map((task) => [task.name, task]));
  const tasks = fresh.tasks.map((task) => keepTask(known.get(task.name), task));
  return { ...fresh, tasks, known_at: old.known_at ?? at };
}

function keepTask(old: Task | undefined, fresh: Task): Task {
  if (old === undefined) return fresh;
  const attempts = fresh.attempts.length < old.attempts.length ? old.attempts : fresh.attempts;
  if (fresh.state !== old.state) return { ...fresh, attempts };
  return { ...fresh, attempts, place: fresh.place ?? old.place, waits: fresh.waits.length > 0 ? fresh.waits : old.waits };
}

export function keepBooked(old: Known<NodeList> | undefined, fresh: NodeList, at: number): Known<NodeList> {
  if (old === undefined || (fresh.missing ?? []).length === 0) return fresh;
  const known = new Map(old.nodes.map((node) => [node.id, node]));
  const nodes = fresh.nodes.map((node) => keepBookings(known.get(node.id), node));
  return { ...fresh, nodes, gpus: old.gpus, known_at: old.known_at ?? at };
}
