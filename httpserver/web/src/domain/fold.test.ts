import { beforeEach, describe, expect, it } from "vitest";

import type { TaskState } from "../api/client";
import { MANY_NODES, NO_CHOICE, countStates, countText, defaultFold, fold, keepChoice, loadChoice } from "./fold";

const task = (name: string, state: TaskState = "SUCCEEDED") => ({ name, state });
const many = (count: number, stem: string, state?: TaskState) => Array.from({ length: count }, (_, i) => task(`${stem}${i + 1}`, state));
const edge = (source: string, target: string) => ({ source, target, on: "success" });
const none: ReadonlySet<string> = new Set();

describe("a folded graph", () => {
  const sweep = [task("prep"), ...many(180, "train-"), ...many(20, "train-9999", "RUNNING"), task("report", "BLOCKED")];
  const edges = sweep.slice(1, -1).flatMap(({ name }) => [edge("prep", name), edge(name, "report")]);

  it("has one node for names that differ by numbers, with their states", () => {
    const { nodes, edges: left, nodeOf } = fold(sweep, edges, "name", none);
    expect(nodes.map((n) => [n.label, n.members?.length])).toEqual([["prep", undefined], ["train-*", 200], ["report", undefined]]);
    expect(left).toEqual([edge("prep", "train-*"), edge("train-*", "report")]);
    expect(nodeOf.get("train-17")).toBe("train-*");
    const states = new Map(sweep.map((t) => [t.name, t.state]));
    expect(countText(countStates(nodes[1]?.members ?? [], states))).toBe("180 succeeded, 20 running");
  });

  it("has each task once it is unfolded, and beside others that stay folded", () => {
    const { nodes } = fold([...sweep, ...many(50, "eval-")], edges, "name", new Set(["train-*"]));
    expect(nodes.filter((n) => n.members === null)).toHaveLength(202);
    expect(nodes.at(-1)?.label).toBe("eval-*");
  });

  it("is folded by state within a layer", () => {
    const { nodes } = fold(sweep, edges, "state", none);
    expect(nodes.map((n) => [n.label, n.members?.length])).toEqual([["prep", undefined], ["succeeded", 180], ["running", 20], ["report", undefined]]);
  });

  it("makes chains of one kind one node, though they then need each other in a circle", () => {
    const tasks = many(50, "a").flatMap((a, i) => [a, task(`b${i + 1}`)]);
    const chain = tasks.slice(1).map((t, i) => edge(tasks[i]?.name ?? "", t.name));
    const { nodes, edges: left } = fold(tasks, chain, "name", none);
    expect(nodes.map((n) => n.label)).toEqual(["a*", "b*"]);
    expect(left).toEqual([edge("a*", "b*"), edge("b*", "a*")]);
  });

  it("has few nodes whatever the names are", () => {
    const letters = (i: number): string => [...i.toString(26)].map((c) => String.fromCharCode(97 + Number.parseInt(c, 26))).join("");
    const hashes = Array.from({ length: 4000 }, (_, i) => task(`run-${letters(i * 7919)}${i % 7}${letters(i)}`));
    const words = Array.from({ length: 4000 }, (_, i) => task(letters(i * 7919 + 30_000)));
    const hostile = ["constructor", "__proto__", "toString"].map((name) => task(name));
    for (const tasks of [hashes, words, [...hostile, ...many(2000, "x")]]) {
      const { nodes, nodeOf } = fold(tasks, [], "name", none);
      expect(nodes.length).toBeLessThanOrEqual(MANY_NODES);
      expect(nodeOf.size).toBe(tasks.length);
      expect(nodes.reduce((sum, n) => sum + (n.members?.length ?? 1), 0)).toBe(tasks.length);
    }
  });

  it("is the default beyond 150 tasks; two of a kind stand for themselves", () => {
    expect([defaultFold(150), defaultFold(151)]).toEqual(["none", "name"]);
    expect(fold(many(2, "t"), [], "name", none).nodes.map((n) => n.members)).toEqual([null, null]);
    expect(fold(sweep, edges, "none", none).nodes).toHaveLength(202);
  });
});

describe("the choice", () => {
  beforeEach(() => sessionStorage.clear());

  it("is kept for each job", () => {
    keepChoice("j1", { fold: "state", opened: ["a-*"], zoom: 0.5 });
    expect(loadChoice("j1")).toEqual({ fold: "state", opened: ["a-*"], zoom: 0.5 });
    expect(loadChoice("j2")).toEqual(NO_CHOICE);
  });

  it.each(["{", "7", "null", '{"fold": "colour", "opened": 3, "zoom": 1e9}', '{"opened": [1, {}], "zoom": "2"}'])("that is broken is none: %s", (text) => {
    sessionStorage.setItem("headway.graph.j1", text);
    expect(loadChoice("j1")).toEqual(NO_CHOICE);
  });
});
