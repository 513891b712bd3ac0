import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { type Queue, type User, api } from "../api/client";
import { type Drawn, button, drawn, press, until } from "../testing";
import { QueueView } from "./queue";

type Entry = Queue["entries"][number];

let page: Drawn;
let waiting = 0;
let asked: string[] = [];
let promises: object = { promises: "settled", promised: 0, slack_s: 0 };

const entry = (n: number): Entry =>
  ({
    job_id: `j${n}`,
    job_name: n === 6_000 ? "needle" : "hay",
    task: `t${n}`,
    owner: "bea",
    position: n + 1,
    resources: { gpus: 2, cpus: 1, memory_bytes: 1 },
    timeout_s: 60,
    submitted_at: 0,
    terms: {},
    estimated_start_at: null,
    promised_start_at: null,
    waits: ["one", "two", "three", "four"].map((sentence) => ({ sentence })),
  }) as unknown as Entry;

beforeEach(() => {
  asked = [];
  promises = { promises: "settled", promised: 0, slack_s: 0 };
  vi.spyOn(api, "GET").mockImplementation((async (_: string, { params }: { params: { query: { limit: number; offset: number; owner: string } } }) => {
    const { limit, offset, owner } = params.query;
    asked.push(`${offset}+${limit}${owner}`);
    const matching = owner === "" ? waiting : Math.min(waiting, 150);
    const entries = Array.from({ length: Math.max(0, Math.min(limit, matching - offset)) }, (_, i) => entry(offset + i));
    const scheduling = { policy: "fifo", discipline: "easy", failure: "", contradictions: [], policy_set_by: null, discipline_set_by: null, ...promises };
    return { data: { entries, total_waiting: waiting, total_matching: matching, total_running: 1, scheduling } };
  }) as never);
});

afterEach(async () => {
  await page.close();
  vi.restoreAllMocks();
});

const open = async (admin = false): Promise<void> => {
  page = await drawn(<QueueView user={{ name: "anna", admin } as User} />);
  await until(() => expect(document.querySelector("h1")).not.toBeNull());
};
const tasks = (): (string | null)[] => [...document.querySelectorAll("td.name")].map((cell) => cell.textContent);
const pages = (): string | null | undefined => document.querySelector("nav .facts")?.textContent;
const search = (text: string): Promise<void> =>
  act(async () => {
    const field = document.querySelector("input[type=search]") as HTMLInputElement;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });

it("who is on a page that the queue no longer has comes to its last one", async () => {
  waiting = 201;
  await open();
  await press(button("Last"));
  await until(() => expect(pages()).toBe("201 to 201 of 201"));
  waiting = 120;
  await act(() => page.client.invalidateQueries());
  await until(() => expect(pages()).toBe("101 to 120 of 120"));
  // The count is drawn before the tasks of the page that it leads to have come.
  await until(() => expect(tasks()).toHaveLength(20));
  waiting = 0;
  await act(() => page.client.invalidateQueries());
  await until(() => expect(document.body.textContent).toContain("No task waits"));
});

it("a search goes as far as is said, and further when asked to", async () => {
  waiting = 6_001;
  await open();
  expect(asked).toEqual(["0+100"]);
  await search("needle");
  await until(() => expect(document.body.textContent).toContain("Only the first 5000 tasks of the queue were searched."));
  expect(document.body.textContent).toContain("No waiting task matches.");
  await press(button("Search further"));
  await until(() => expect(tasks()).toEqual(["needle / t6000"]));
  expect(document.body.textContent).toContain("1 waiting task matches.");
  expect(document.body.textContent).not.toContain("Search further");
});

it("one's own tasks come from the server, page by page, however long the queue is", async () => {
  waiting = 50_000;
  await open();
  await act(async () => (document.querySelector("input[type=checkbox]") as HTMLInputElement).click());
  await until(() => expect(pages()).toBe("1 to 100 of 150"));
  expect(document.body.textContent).toContain("50000 waiting, 1 running. 150 waiting tasks match.");
  await press(button("Last"));
  await until(() => expect(tasks()).toHaveLength(50));
  expect(asked).toEqual(["0+100", "0+100anna", "100+100anna"]);
  await search("t1");
  await until(() => expect(asked.at(-1)).toBe("0+1000anna"));
});

it.each([
  [0, 0, "Every task that has to wait is promised a start at once."],
  [1, 1, "The waiting task is promised a start, 2 m later than estimated"],
  [7, 7, "All 7 waiting tasks are promised a start, on average"],
  [3, 2_400, "3 of 2400 waiting tasks are promised a start, on average"],
])("it says how many starts are promised: %d of %d", async (promised, of, want) => {
  [promises, waiting] = [{ promises: "late", discipline: "conservative", promised, slack_s: 120 }, of];
  await open(true);
  await until(() => expect(document.body.textContent).toContain(want));
});

it("nothing is said of promises at once under a rule that gives none", async () => {
  promises = { promises: "late", discipline: "greedy", promised: 2, slack_s: 120 };
  await open(true);
  expect(document.body.textContent).not.toMatch(/promised a start/);
});

it("of many reasons the first ones are shown, the others on demand", async () => {
  waiting = 1;
  await open();
  const why = document.querySelector("td.why");
  expect([...(why?.children ?? [])].slice(0, 2).map((one) => one.textContent)).toEqual(["one", "two"]);
  expect(why?.querySelector(".more-reasons")?.textContent).toBe("2 more reasonsthreefour");
  expect(document.querySelector("td.asks")?.textContent).toBe("2 GPUs, 1 CPU, 1 B");
});

it("filters and the page are the address's; what is not known there counts for nothing", async () => {
  waiting = 250;
  window.history.replaceState(null, "", "/queue?of=mine&from=100&sort=%00&q=");
  await open();
  await until(() => expect(pages()).toBe("101 to 150 of 150"));
  expect(asked).toEqual(["100+100anna"]);
  const entries = window.history.length;
  for (const text of ["t", "t1", "t10"]) await search(text);
  await until(() => expect(window.location.search).toBe("?of=mine&sort=%00&q=t10"));
  expect(window.history.length).toBe(entries);
  await act(async () => (document.querySelector("input[type=checkbox]") as HTMLInputElement).click());
  expect(window.location.search).toBe("?sort=%00&q=t10");
  expect(window.history.length).toBe(entries + 1);
  window.history.replaceState(null, "", "/queue?from=-7&of=%3Cscript%3E");
  await until(() => expect(pages()).toBe("1 to 100 of 250"));
});

it("what orders the queue is a plain sentence; its word is pointed at, and told to admins", async () => {
  waiting = 0;
  const panel = (): Element | null => document.querySelector('[aria-label="What orders the queue"]');
  await open();
  expect(panel()?.textContent).toContain("First come, first served.");
  expect(panel()?.textContent).not.toMatch(/fifo|easy/);
  expect(panel()?.querySelector("[title='Its word in settings: fifo']")).not.toBeNull();
  expect(panel()?.querySelectorAll("a[href='/help/scheduling']")).toHaveLength(2);
  await page.close();
  await open(true);
  expect(panel()?.textContent).toMatch(/First come, first served\..*Its word: fifo\./);
});
