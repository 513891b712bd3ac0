import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { act } from "react";

import type { JobDetail, TaskState } from "../api/client";
import { type Drawn, button, drawn, press } from "../testing";
import { Dag } from "./dag";

type Tasks = JobDetail["tasks"];
type Edges = JobDetail["edges"];
const task = (name: string, state: TaskState): Tasks[number] => ({ name, state }) as never;
const many = (count: number, stem: string, state: TaskState = "SUCCEEDED"): Tasks => Array.from({ length: count }, (_, i) => task(`${stem}${i + 1}`, state));
const edge = (source: string, target: string): Edges[number] => ({ source, target, on: "success" });

let page: Drawn | undefined;
beforeEach(() => sessionStorage.clear());
afterEach(async () => {
  await page?.close();
  page = undefined;
});

const boxes = (): SVGElement[] => [...document.querySelectorAll<SVGElement>(".dag .task")];
const labels = (): (string | null)[] => boxes().map((one) => one.getAttribute("aria-label"));
const key = (on: Element | null, name: string): Promise<void> => act(async () => void on?.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true })));
const graph = (tasks: Tasks, edges: Edges, chosen?: string, onChoose = vi.fn()) => <Dag job="j1" tasks={tasks} edges={edges} chosen={chosen} onChoose={onChoose} />;

describe("the graph of a job", () => {
  const sweep = [task("prep", "SUCCEEDED"), ...many(180, "train-"), ...many(20, "train-99", "RUNNING"), task("report", "BLOCKED")];
  const edges = sweep.slice(1, -1).flatMap(({ name }) => [edge("prep", name), edge(name, "report")]);

  it("folds 200 tasks of one kind, unfolds them by a click or a key, and keeps that for the job", async () => {
    page = await drawn(graph(sweep, edges));
    expect(labels()).toEqual(["prep: succeeded", "train-*, 200 tasks: 180 succeeded, 20 running. Unfold", "report: blocked"]);
    await key(boxes()[1] ?? null, "Enter");
    expect(boxes()).toHaveLength(202);
    expect(document.activeElement?.getAttribute("aria-label")).toBe("train-1: succeeded");
    await page.close();
    page = await drawn(graph(sweep, edges));
    expect(boxes()).toHaveLength(202);
    await press(button("Fold train-*"));
    expect(boxes()).toHaveLength(3);
  });

  it("chooses tasks by click, and is one stop of the Tab key with arrow keys inside", async () => {
    const onChoose = vi.fn();
    page = await drawn(graph([task("a", "SUCCEEDED"), task("b", "RUNNING"), task("c", "BLOCKED")], [edge("a", "b"), edge("a", "c")], "a", onChoose));
    expect(boxes().map((one) => one.getAttribute("tabindex"))).toEqual(["0", "-1", "-1"]);
    await act(async () => boxes()[0]?.focus());
    await key(document.activeElement, "ArrowRight");
    await key(document.activeElement, "ArrowDown");
    expect(document.activeElement?.getAttribute("aria-label")).toBe("c: blocked");
    await key(document.activeElement, "Enter");
    expect(onChoose.mock.calls).toEqual([["c"]]);
    await key(document.activeElement, "+");
    expect(document.querySelector(".graph-zoom .number")?.textContent).toBe("125 %");
    await press(button("Fit"));
    expect(document.querySelector(".graph-zoom .number")?.textContent).toBe("100 %");
  });

  it("goes to the first and the last task by Home and End", async () => {
    page = await drawn(graph([task("a", "SUCCEEDED"), task("b", "RUNNING"), task("c", "BLOCKED")], [edge("a", "b"), edge("b", "c")]));
    await act(async () => boxes()[0]?.focus());
    await key(document.activeElement, "End");
    expect(document.activeElement?.getAttribute("aria-label")).toBe("c: blocked");
    await key(document.activeElement, "Home");
    expect(document.activeElement?.getAttribute("aria-label")).toBe("a: succeeded");
  });

  it("opens at its first task where the corner of the picture is empty, and only then", async () => {
    const of = vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(1200);
    const high = vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(600);
    sessionStorage.setItem("headway.graph.j1", JSON.stringify({ fold: "none", opened: [], zoom: null }));
    const names = many(3_000, "x");
    const drawnGraph = (state: TaskState): React.ReactNode => graph([task("prep", state), ...names], names.map(({ name }) => edge("prep", name)));
    page = await drawn(drawnGraph("RUNNING"));
    const box = document.querySelector<HTMLElement>(".dag");
    const first = boxes().find((one) => one.dataset["id"] === "prep");
    const y = 0.6 * Number(/,([\d.]+)\)/.exec(first?.getAttribute("transform") ?? "")?.[1]);
    expect(y).toBeGreaterThan(600);
    expect(box?.scrollTop).toBeGreaterThan(y - 600);
    expect(box?.scrollTop).toBeLessThan(y);
    if (box) box.scrollTop = 5;
    await page.draw(drawnGraph("SUCCEEDED"));
    expect(box?.scrollTop).toBe(5);
    of.mockRestore();
    high.mockRestore();
  });

  it("has few elements however many tasks are unfolded, and hostile names are text", async () => {
    const tasks = [...many(10_000, "x"), task("<img src=x onerror=alert(1)>", "FAILED")];
    sessionStorage.setItem("headway.graph.j1", JSON.stringify({ fold: "none", opened: [], zoom: 0.02 }));
    page = await drawn(graph(tasks, []));
    expect(document.querySelectorAll(".dag *").length).toBeLessThan(3_000);
    expect(document.querySelector<SVGElement>(".dag .bulk.good")?.getAttribute("d")?.split("M")).toHaveLength(10_000);
    expect(document.querySelector(".dag img")).toBeNull();
  });
});
