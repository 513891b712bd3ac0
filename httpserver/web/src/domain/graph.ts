/** Where the boxes and arrows of a DAG stand. */
import dagre from "@dagrejs/dagre";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface PlacedTask extends Point {
  readonly name: string;
  readonly width: number;
  readonly height: number;
}

export interface PlacedEdge {
  readonly source: string;
  readonly target: string;
  readonly on: string;
  readonly points: readonly Point[];
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly tasks: readonly PlacedTask[];
  readonly edges: readonly PlacedEdge[];
}

/** Past so many tasks a picture helps nobody: the page shows a table alone. */
export const MAX_DRAWN = 250;

export const shorten = (name: string, most = 22): string => (name.length <= most ? name : `${name.slice(0, most - 1)}…`);

// Dagre keeps nodes in plain objects, in which a task named `constructor` would be there already.
const id = (name: string): string => `task ${name}`;

export function layout(
  tasks: readonly { readonly name: string }[],
  edges: readonly { readonly source: string; readonly target: string; readonly on: string }[],
): Layout {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 46, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { name } of tasks) {
    graph.setNode(id(name), { width: Math.max(84, 8.5 * shorten(name).length + 44), height: 36 });
  }
  for (const { source, target } of edges) {
    if (graph.hasNode(id(source)) && graph.hasNode(id(target))) graph.setEdge(id(source), id(target));
  }
  dagre.layout(graph);
  const size = graph.graph();
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    tasks: tasks.map(({ name }) => {
      const { x, y, width, height } = graph.node(id(name));
      return { name, x, y, width, height };
    }),
    edges: edges
      .filter((e) => graph.hasNode(id(e.source)) && graph.hasNode(id(e.target)))
      .map((e) => {
        // Dagre lets an edge touch a box anywhere; arrows that leave right and come in left are easier to follow.
        const from = graph.node(id(e.source));
        const to = graph.node(id(e.target));
        const between = (graph.edge(id(e.source), id(e.target)) as { points: Point[] }).points.slice(2, -2);
        const points = [{ x: from.x + from.width / 2, y: from.y }, ...between, { x: to.x - to.width / 2, y: to.y }];
        return { ...e, points };
      }),
  };
}

/** An SVG path through the points, level at each of them. */
export function path(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let out = `M${first.x},${first.y}`;
  let from = first;
  for (const to of rest) {
    const middle = (from.x + to.x) / 2;
    out += ` C${middle},${from.y} ${middle},${to.y} ${to.x},${to.y}`;
    from = to;
  }
  return out;
}
