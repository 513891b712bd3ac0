import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { ApiError, type JobDetail, type User, api } from "../api/client";
import { keys } from "../api/events";
import { type Drawn, drawn, until } from "../testing";
import { JobView } from "./job";

vi.mock("../components/log-tabs", () => ({ LogTabs: () => <p>epoch 1 of 3</p> }));

let page: Drawn | undefined;
let refusal: ApiError | null = null;
const task = (name: string) => ({
  name,
  state: "SUCCEEDED",
  attempt: 1,
  generation: 1,
  image: "i:1",
  timeout_s: 60,
  resources: { cpus: 1, memory_bytes: 1, gpus: 0 },
  datasets: [],
  waits: [],
  attempts: [{ number: 1, state: "SUCCEEDED", node_id: "n1", started_at: 1, ended_at: 2, of_runs: 1, phases: {}, warnings: [], extensions: [], gpu_uuids: [], reason: null, deadline_at: null, peak_memory_bytes: null, timeout_s: 60 }],
});
const job = (...names: string[]): JobDetail =>
  ({ id: "j1", name: "digits", owner: "anna", state: "SUCCEEDED", priority: "normal", version: 3, submitted_at: 1, ended_at: 2, task_count: names.length, tasks_by_state: {}, tasks: names.map(task), edges: [], missing: [], notices: [] }) as unknown as JobDetail;
let there = job("prepare", "train");

const open = async (chosen?: string): Promise<Drawn> => {
  page = await drawn(<JobView id="j1" {...(chosen === undefined ? {} : { task: chosen })} user={{ name: "anna", admin: false } as User} />);
  return page;
};
const text = (): string => document.body.textContent ?? "";
const gone = (): ApiError => new ApiError("The job j1 was deleted on 2026-11-29 (UTC) by the rules of retention.", 404, "not-found");

beforeEach(() => {
  refusal = null;
  there = job("prepare", "train");
  vi.spyOn(api, "GET").mockImplementation((async (path: string) => {
    if (!path.endsWith("/{job}")) return { data: undefined };
    if (refusal !== null) throw refusal;
    return { data: there };
  }) as never);
});
afterEach(async () => {
  await page?.close();
  page = undefined;
  vi.restoreAllMocks();
});

it("a job that is deleted while it is read stays on the page, with its log, and says so", async () => {
  const { client } = await open("train");
  await until(() => expect(text()).toContain("epoch 1 of 3"));
  refusal = gone();
  void client.invalidateQueries({ queryKey: keys.job("j1") });
  await until(() => expect(text()).toMatch(/This job was deleted \(at .*\d\d:\d\d.*\); what you see is from before\. The job j1 was deleted on/));
  expect(text()).toContain("epoch 1 of 3");
  expect(document.querySelector("h1")?.textContent).toContain("digits");
  // Nothing can be done with it.
  expect(document.querySelectorAll(".actions :is(button, a)")).toHaveLength(0);
});

it("a job that was never shown is the server's plain sentence", async () => {
  refusal = gone();
  await open("train");
  await until(() => expect(text()).toMatch(/^The job j1 was deleted on .* by the rules of retention\. Try again$/));
});

it("what an account may not see any more goes from the page", async () => {
  const { client } = await open();
  await until(() => expect(text()).toContain("digits"));
  refusal = new ApiError("This is not yours.", 403, "forbidden");
  void client.invalidateQueries({ queryKey: keys.job("j1") });
  await until(() => expect(text()).toBe("This is not yours. Try again"));
});

it.each(["nope", "constructor", "trian"])("a task %s that is not there is told, with the nearest names", async (name) => {
  await open(name);
  await until(() => expect(text()).toContain(`Job digits has no task '${name}'. The nearest names: `));
  const links = [...document.querySelectorAll('[role="alert"] a')].map((one) => one.getAttribute("href"));
  expect(links.toSorted()).toEqual(["/jobs/j1/prepare", "/jobs/j1/train"]);
  if (name === "trian") expect(links[0]).toBe("/jobs/j1/train");
});

it("a job of one task shows it all the same", async () => {
  there = job("only");
  await open("nope");
  await until(() => expect(text()).toContain("Job digits has no task 'nope'. The nearest names: only."));
  expect(text()).toContain("epoch 1 of 3");
});
