import { describe, expect, it } from "vitest";

import { path } from "./curves";
import { type Box, type GraphEdge, type Layout, type PlacedNode, layersOf, layout, spread } from "./graph";

const node = (name: string) => ({ name, width: 120, height: 36 });
const edge = (source: string, target: string, on = "success"): GraphEdge => ({ source, target, on });
const many = (count: number, stem = "t"): string[] => Array.from({ length: count }, (_, i) => `${stem}-${i + 1}`);
const boxOf = (n: PlacedNode): Box => ({ left: n.x - n.width / 2, right: n.x + n.width / 2, top: n.y - n.height / 2, bottom: n.y + n.height / 2 });

/** No two boxes overlap, and all of it lies within the picture. */
function sound(placed: Layout, count: number): void {
  expect(placed.nodes).toHaveLength(count);
  const boxes = placed.nodes.map(boxOf).sort((a, b) => a.left - b.left);
  for (const [i, a] of boxes.entries()) {
    expect(a.left).toBeGreaterThanOrEqual(0);
    expect(a.top).toBeGreaterThanOrEqual(0);
    expect(a.right).toBeLessThanOrEqual(placed.width);
    expect(a.bottom).toBeLessThanOrEqual(placed.height);
    for (let next = i + 1; (boxes[next]?.left ?? Infinity) < a.right; next++) {
      const b = boxes[next];
      expect(b !== undefined && b.top < a.bottom && a.top < b.bottom).toBe(false);
    }
  }
}

const shape = (placed: Layout): number => placed.width / placed.height;

describe("the graph", () => {
  it("puts what needs others to their right, in the order of the file from the top", () => {
    const placed = layout(["b", "a", "z", "y", "end"].map(node), [edge("b", "z"), edge("a", "y"), edge("z", "end"), edge("y", "end", "any")]);
    sound(placed, 5);
    const at = Object.fromEntries(placed.nodes.map((n) => [n.name, n]));
    expect(at["b"]?.x).toBeLessThan(at["z"]?.x ?? 0);
    expect(at["z"]?.x).toBeLessThan(at["end"]?.x ?? 0);
    expect(at["b"]?.y).toBeLessThan(at["a"]?.y ?? 0);
    expect(at["z"]?.y).toBeLessThan(at["y"]?.y ?? 0);
    // A chain is a straight line.
    expect(at["b"]?.y).toBeCloseTo(at["z"]?.y ?? 0);
    expect(placed.edges.map((e) => e.on)).toEqual(["success", "success", "success", "any"]);
  });

  it("puts 200 tasks of one kind in a grid with one arrow to it and one from it", () => {
    // Used to: a strip of 363 × 10,798, in reversed order.
    const names = many(200);
    const placed = layout(["prep", ...names, "end"].map(node), names.flatMap((name) => [edge("prep", name), edge(name, "end")]));
    sound(placed, 202);
    expect(shape(placed)).toBeGreaterThan(1);
    expect(shape(placed)).toBeLessThan(4);
    expect(placed.edges.map((e) => e.count)).toEqual([200, 200]);
    expect(placed.frames).toHaveLength(1);
    const read = placed.nodes.filter((n) => n.name.startsWith("t-")).sort((a, b) => a.y - b.y || a.x - b.x);
    expect(read.map((n) => n.name)).toEqual(names);
  });

  it.each([2, 3, 5, 12])("puts %i tasks that need nothing of each other side by side, not in one column", (count) => {
    const placed = layout(many(count).map(node), []);
    sound(placed, count);
    expect(new Set(placed.nodes.map((n) => n.x)).size).toBeGreaterThan(1);
    expect(placed.height).toBeLessThan(3 * 50 + 32);
    expect(placed.width).toBeLessThan(1_000);
  });

  it("gives each kind of box its own width: a box of many makes those of one task beside it no wider", () => {
    const group = { name: "blocked\n1", width: 230, height: 54 };
    for (const count of [5, 200]) {
      const names = many(count);
      const placed = layout([node("prep"), group, ...names.map(node)], ["blocked\n1", ...names].map((name) => edge("prep", name)));
      sound(placed, count + 2);
      expect(new Set(placed.nodes.filter((n) => n.name.startsWith("t-")).map((n) => n.width))).toEqual(new Set([120]));
      expect(placed.nodes.find((n) => n.name === group.name)?.width).toBe(230);
    }
  });

  it.each([
    ["nothing but tasks", many(1000), []],
    ["a chain", many(300), many(299).map((name, i) => edge(name, `t-${i + 2}`))],
    ["three chains of 300", ["a", "b", "c"].flatMap((s) => many(300, s)), ["a", "b", "c"].flatMap((s) => many(299, s).map((name, i) => edge(name, `${s}-${i + 2}`)))],
    ["20 chains of 5", many(100), many(80).map((name, i) => edge(name, `t-${i + 21}`))],
    ["100 chains of 5", many(500), many(400).map((name, i) => edge(name, `t-${i + 101}`))],
    ["a start that all need", many(300), many(299).map((_, i) => edge("t-1", `t-${i + 2}`))],
    ["what goes over many layers", many(40), many(39).flatMap((name, i) => [edge(name, `t-${i + 2}`), edge("t-1", `t-${i + 2}`)])],
    ["circles, which only folding makes", many(30), many(30).map((name, i) => edge(name, `t-${((i + 1) % 30) + 1}`))],
  ])("%s: no strip, no box on another", (_, names, edges) => {
    const placed = layout(names.map(node), edges);
    sound(placed, names.length);
    expect(shape(placed)).toBeGreaterThan(0.4);
    expect(shape(placed)).toBeLessThan(5);
    expect(placed.edges.every((e) => !e.d.includes("NaN"))).toBe(true);
  });

  it("keeps the way of an arrow over a layer free of boxes", () => {
    const placed = layout(["a", "b", "c"].map(node), [edge("a", "b"), edge("b", "c"), edge("a", "c")]);
    const bent = placed.edges.find((e) => e.source === "a" && e.target === "c");
    expect(bent?.d.split("C").length).toBeGreaterThan(2);
    const b = placed.nodes[1];
    const middle = (bent?.d ?? "").split(/[ MC]/).map((p) => p.split(",").map(Number)).find(([x]) => x !== undefined && b !== undefined && Math.abs(x - b.x) < b.width / 2 + 1);
    expect(Math.abs((middle?.[1] ?? b?.y ?? 0) - (b?.y ?? 0))).toBeGreaterThan(18);
  });

  it("takes steps that grow with the number of boxes and arrows alone", () => {
    const graph = (layers: number, wide: number): Layout => {
      const names = many(layers * wide);
      const edges = names.flatMap((name, i) => (i < wide * (layers - 1) ? [edge(name, names[i + wide] ?? ""), edge(name, names[Math.floor(i / wide) * wide + wide] ?? "")] : []));
      return layout(names.map(node), edges);
    };
    for (const [layers, wide] of [[10, 1000], [1000, 10], [100, 100], [5000, 2], [1, 10_000]] as const) {
      const placed = graph(layers, wide);
      expect(placed.nodes).toHaveLength(10_000);
      expect(placed.steps).toBeLessThan(120_000);
    }
  });

  it("leaves out arrows to nowhere and to itself", () => {
    expect(layout([node("a")], [edge("a", "a"), edge("a", "b"), edge("__proto__", "a")]).edges).toEqual([]);
    expect(layout([], []).nodes).toEqual([]);
  });

  it("draws a path", () => {
    expect(path([])).toBe("");
    expect(
      path([
        { x: 0, y: 0 },
        { x: 10, y: 8 },
      ]),
    ).toBe("M0,0 C5,0 5,8 10,8");
  });
});

describe("places with gaps", () => {
  it("are those that are wanted, unless they overlap", () => {
    expect(spread([0, 100], [10, 10], 5)).toEqual([0, 100]);
    expect(spread([50, 50, 50], [10, 10, 10], 5)).toEqual([35, 50, 65]);
    expect(spread([100, 0], [10, 10], 0)).toEqual([45, 55]);
  });

  it("layers follow the longest way", () => {
    expect(layersOf(4, [[0, 1], [1, 2], [0, 3], [2, 3]])).toEqual([0, 1, 2, 3]);
    expect(layersOf(2, [[0, 1], [1, 0]])).toEqual([0, 1]);
  });
});
