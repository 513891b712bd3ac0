import { expect, it } from "vitest";

import type { JobDetail, NodeList } from "../api/client";
import { keepBooked, keepTasks } from "./known";

const missing = [{ service: "TaskManager", sentence: "TaskManager does not answer." }];
const task = (attempts: number, more: object = {}) => ({ name: "a", state: "QUEUED", attempts: Array(attempts).fill({}), place: null, waits: [], ...more });
const job = (one: object, more: object = {}): JobDetail => ({ id: "j", tasks: [one], missing: [], ...more }) as never;

it("attempts and places that can't be had now stay as they were, with their moment", () => {
  const old = job(task(2, { place: { position: 3 }, waits: [{ word: "gpus" }] }));
  const kept = keepTasks(old, job(task(0), { missing }), 100);
  expect(kept.tasks[0]).toMatchObject({ attempts: [{}, {}], place: { position: 3 }, waits: [{ word: "gpus" }] });
  expect(kept.known_at).toBe(100);
  // A later one of the same kind is no fresher.
  expect(keepTasks(kept, job(task(0), { missing }), 200).known_at).toBe(100);
  // Where it stands in the queue is over once it runs; its attempts are not.
  expect(keepTasks(kept, job(task(0, { state: "RUNNING" }), { missing }), 200).tasks[0]).toMatchObject({ attempts: [{}, {}], place: null, waits: [] });
  expect(keepTasks(kept, job(task(1)), 300)).toEqual(job(task(1)));
  expect(keepTasks(undefined, job(task(0), { missing }), 0).known_at).toBeUndefined();
});

it("so do bookings", () => {
  const gpu = (more: object) => ({ uuid: "g", state: null, booking: null, ...more });
  const list = (one: object, more: object): NodeList => ({ nodes: [one], gpus: { free: null }, missing: [], ...more }) as never;
  const old = list({ id: "n", booked: { cpus: 1 }, gpus: [gpu({ state: "booked", booking: { task: "t" } })] }, { gpus: { free: 0 } });
  const kept = keepBooked(old, list({ id: "n", booked: null, gpus: [gpu({})] }, { missing }), 100);
  expect(kept).toMatchObject({ known_at: 100, gpus: { free: 0 }, nodes: [{ booked: { cpus: 1 }, gpus: [{ state: "booked", booking: { task: "t" } }] }] });
  expect(keepBooked(kept, old, 200)).toBe(old);
});
