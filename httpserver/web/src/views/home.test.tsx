import { afterEach, expect, it, vi } from "vitest";

import { type Node, type NodeList, type User, api } from "../api/client";
import { type Drawn, drawn, until } from "../testing";
import { Home } from "./home";

type Gpu = Node["gpus"][number];

let page: Drawn;
const soon = Date.now() / 1000 + 3600;

const gpu = (index: number, more: Partial<Gpu> = {}): Gpu =>
  ({ uuid: `g${index}`, index, model: "A100", simulated: false, sick: false, busy_outside: false, note: "", state: "free", booking: null, utilisation: null, ...more }) as Gpu;
const booking = { job_id: "j1", job_name: "digits", task: "train", owner: "bea", ends_by_at: soon, overdue: false } as Gpu["booking"];
const node = (gpus: Gpu[], more: Partial<Node> = {}): Node =>
  ({ id: "n1", cpus: 8, memory_bytes: 1 << 30, gpus, booked: { cpus: 2, memory_bytes: 1 << 29, gpus: 1, tasks: 1, closed: "" }, ...more }) as Node;
const told = (total: number, free: number | null, next: number | null = null) => ({ total, free, booked: 0, unusable: 0, next_free_at: next });

const open = async (list: Omit<NodeList, "missing" | "notices"> & { missing?: NodeList["missing"]; notices?: string[] }): Promise<void> => {
  const job = { id: "j1", name: "digits", state: "RUNNING", tasks_by_state: { SUCCEEDED: 1 }, task_count: 3, submitted_at: soon, version: 1 };
  const waits = { job_id: "j2", job_name: "wide", task: "w", owner: "bea", position: 1, resources: { gpus: 4 }, estimated_start_at: null };
  vi.spyOn(api, "GET").mockImplementation((async (path: string) => {
    if (path === "/api/v1/nodes") return { data: { missing: [], notices: [], ...list } };
    if (path === "/api/v1/jobs") return { data: { jobs: list.nodes.length > 0 ? [job] : [], next_cursor: null } };
    return { data: { entries: list.nodes.length > 0 ? [waits] : [], total_waiting: 21, total_running: 1 } };
  }) as never);
  page = await drawn(<Home user={{ name: "anna", admin: false } as User} />);
  await until(() => expect(document.body.textContent).not.toContain("Loading"));
};
const text = (): string => document.querySelector("section")?.textContent?.replaceAll("\u00a0", " ") ?? "";
const cells = (table: string): string[] => [...document.querySelectorAll(`table[aria-label="${table}"] td`)].map((cell) => cell.textContent ?? "");

afterEach(async () => {
  await page.close();
  vi.restoreAllMocks();
});

it("each GPU says who has it and until when, booked and measured apart", async () => {
  const cards = [gpu(0, { state: "booked", booking, utilisation: 0 }), gpu(1), gpu(2, { state: "sick", sick: true })];
  await open({ nodes: [node(cards)], gpus: { ...told(3, 1, soon), unusable: 1 } });
  const tiles = [...document.querySelectorAll(".tile")].map((tile) => tile.textContent ?? "");
  expect(tiles[0]).toMatch(/^GPU 0: A100booked.*digits \/ trainbea, ends by .*in use: 0 %$/);
  expect(tiles.slice(1)).toEqual(["GPU 1: A100free", "GPU 2: A100faulty"]);
  expect(document.querySelector(".tile a")?.getAttribute("href")).toBe("/jobs/j1/train");
  expect(text()).toContain("1 of 3 GPUs free now. 1 can’t be used now. The next is free at");
  expect(text()).toContain("CPUs: 2 of 8 booked");
  expect(cells("My latest jobs").slice(0, 4)).toEqual(["running", "digits", "1/3", "1"]);
  expect(cells("First waiting tasks")).toEqual(["1", "wide / w", "bea", "4", "–"]);
});

it("while bookings are not known the GPUs are shown, and the sentence", async () => {
  const missing = [{ service: "TaskManager", sentence: "Who holds them can't be shown now." }];
  await open({ nodes: [node([gpu(0, { state: null })], { booked: null })], gpus: told(1, null), missing });
  expect(text()).toContain("Who holds them can't be shown now.");
  expect(document.querySelector(".tile")?.textContent).toBe("GPU 0: A100not known");
  expect(cells("My latest jobs")[3]).toBe("?");
});

it("a cluster that was restored says what it has lost", async () => {
  const lost = "This cluster was restored from a backup of 2026-11-30: what was submitted later is lost.";
  await open({ nodes: [node([gpu(0)])], gpus: told(1, 1), notices: [lost] });
  expect([...document.querySelectorAll("[role=status]")].map((one) => one.textContent)).toContain(lost);
});

it("a cluster without GPUs and one without machines say so", async () => {
  await open({ nodes: [node([])], gpus: told(0, 0) });
  expect(text()).toContain("No machine here has a GPU. Tasks run on CPUs.");
  await page.close();
  await open({ nodes: [], gpus: told(0, 0) });
  expect(text()).toContain("No machine has registered yet.");
  expect(document.body.textContent).toContain("You have no jobs yet.");
  expect(document.body.textContent).toContain("No task waits.");
});
