/**
 * Where the boxes and arrows of a DAG stand, in steps that grow with their number alone.
 *
 * A box stands in the layer behind the last one that it needs, in the order of the file. A wide layer is a grid with one
 * arrow for all that goes the same way. A long row of layers goes on in the next row, as text does.
 */
import { type Point, corners, path } from "./curves";

export interface GraphNode {
  readonly name: string;
  readonly width: number;
  readonly height: number;
}

export interface GraphEdge {
  readonly source: string;
  readonly target: string;
  readonly on: string;
}

/** A box; x and y are its middle. */
export interface PlacedNode extends GraphNode, Point {
  readonly layer: number;
}

/** An arrow; `count`: of how many it stands. */
export interface PlacedEdge extends GraphEdge {
  readonly d: string;
  readonly count: number;
  readonly box: Box;
}

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly PlacedEdge[];
  /** Around the grids. */
  readonly frames: readonly Box[];
  /** What it took: for tests, which measure by this and not by a clock. */
  readonly steps: number;
}

const MARGIN = 8;
const GAP = 14;
/** Between two layers: room for arrows, and more where they are steep. */
const LAYER_GAP = 46;
const STEEP_GAP = 100;
/** Between two rows of layers. */
const ROW_GAP = 44;
/** Left of all rows, where they go on from the row before. */
const ROW_MARGIN = 24;
/** How wide a picture should be for its height. */
const SHAPE = 2.2;
/** So many times wider than high, and this wide, it goes on in rows. */
const TOO_LONG = 4.5;
const LONG = 1700;
const LEAST_ROW = 1200;
/** More in one layer are a grid: where all have the same arrows, where they have their own, and where there is none. */
const MOST_ALIKE = 12;
const MOST_STACKED = 32;
const MOST_LOOSE = 1;
const FRAME = 8;
/** Past so many bends arrows go straight. */
const MOST_BENDS = 4_000;

/** The layer of each node, by its place; what needs itself by a way round comes where it stands in the file. */
export function layersOf(count: number, pairs: readonly (readonly [number, number])[]): number[] {
  const needed = new Array<number>(count).fill(0);
  const next: number[][] = Array.from({ length: count }, () => []);
  for (const [from, to] of pairs) {
    next[from]?.push(to);
    needed[to] = (needed[to] ?? 0) + 1;
  }
  const layer = new Array<number>(count).fill(0);
  const done = new Array<boolean>(count).fill(false);
  const ready: number[] = [];
  for (let i = 0; i < count; i++) if (needed[i] === 0) ready.push(i);
  let unseen = 0;
  for (let at = 0; ; ) {
    if (at === ready.length) {
      while (unseen < count && done[unseen]) unseen++;
      if (unseen === count) break;
      ready.push(unseen);
    }
    const one = ready[at++];
    if (one === undefined || done[one]) continue;
    done[one] = true;
    for (const to of next[one] ?? []) {
      if (done[to]) continue;
      layer[to] = Math.max(layer[to] ?? 0, (layer[one] ?? 0) + 1);
      needed[to] = (needed[to] ?? 0) - 1;
      if (needed[to] === 0) ready.push(to);
    }
  }
  return layer;
}

/** Places that keep the order and the gaps and are as near as they can be to those that are wanted. */
export function spread(wanted: readonly number[], sizes: readonly number[], gap: number): number[] {
  const before: number[] = [];
  let sum = 0;
  sizes.forEach((size, i) => {
    before.push(sum + size / 2 + i * gap);
    sum += size;
  });
  // Neighbours that would overlap become one block, whose place is the mean of what they want.
  const blocks: { total: number; count: number }[] = [];
  wanted.forEach((want, i) => {
    let block = { total: want - (before[i] ?? 0), count: 1 };
    for (let last = blocks.at(-1); last !== undefined && last.total / last.count > block.total / block.count; last = blocks.at(-1)) {
      block = { total: last.total + block.total, count: last.count + block.count };
      blocks.pop();
    }
    blocks.push(block);
  });
  const out: number[] = [];
  for (const { total, count } of blocks) for (let i = 0; i < count; i++) out.push(total / count + (before[out.length] ?? 0));
  return out;
}

/** What is placed: a node alone, a grid of them, or a bend of an arrow. */
interface Item {
  readonly layer: number;
  readonly nodes: readonly number[];
  /** Of the grid; 0: it is none. */
  readonly columns: number;
  readonly cell: { readonly width: number; readonly height: number };
  readonly width: number;
  readonly height: number;
  readonly before: Item[];
  readonly after: Item[];
  y: number;
}

interface Bundle {
  readonly from: Item;
  readonly to: Item;
  readonly edge: GraphEdge;
  count: number;
  bends: Item[];
}

const mean = (items: readonly Item[]): number => items.reduce((sum, item) => sum + item.y, 0) / items.length;

export function layout(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Layout {
  let steps = nodes.length + edges.length;
  const places = new Map(nodes.map((node, i) => [node.name, i]));
  const known: { from: number; to: number; edge: GraphEdge }[] = [];
  for (const edge of edges) {
    const from = places.get(edge.source);
    const to = places.get(edge.target);
    if (from !== undefined && to !== undefined && from !== to) known.push({ from, to, edge });
  }
  const layer = layersOf(nodes.length, known.map(({ from, to }) => [from, to] as const));
  const layers: number[][] = [];
  layer.forEach((of, i) => (layers[of] ??= []).push(i));

  const same = alike(layers, known);
  const items = layers.map((of, l) => itemsOf(of, l, nodes, known.length === 0 ? MOST_LOOSE : same[l] ? MOST_ALIKE : MOST_STACKED));
  const itemOf = new Array<Item>(nodes.length);
  for (const of of items) for (const item of of) for (const i of item.nodes) itemOf[i] = item;

  const bundles = new Map<Item, Map<Item, Map<string, Bundle>>>();
  const arrows: Bundle[] = [];
  for (const { from, to, edge } of known) {
    const [a, b] = [itemOf[from], itemOf[to]];
    if (a === undefined || b === undefined || a === b) continue;
    const byTarget = bundles.get(a) ?? new Map<Item, Map<string, Bundle>>();
    bundles.set(a, byTarget);
    const byKind = byTarget.get(b) ?? new Map<string, Bundle>();
    byTarget.set(b, byKind);
    const have = byKind.get(edge.on);
    if (have !== undefined) {
      have.count += 1;
      continue;
    }
    const bundle: Bundle = { from: a, to: b, edge, count: 1, bends: [] };
    byKind.set(edge.on, bundle);
    arrows.push(bundle);
  }

  const widths = items.map((of) => of.reduce((most, item) => Math.max(most, item.width), 0));
  const gaps = items.map((of, l) => Math.min(STEEP_GAP, LAYER_GAP + 3 * Math.max(0, Math.max(of.length, items[l + 1]?.length ?? 0) - 3)));
  const rows = rowsOf(widths, gaps, items);
  const rowOf: number[] = [];
  rows.forEach((of, row) => of.forEach((l) => (rowOf[l] = row)));

  // An arrow over other layers has a place of its own in each, so that it crosses no box.
  let bends = 0;
  for (const arrow of arrows) if (rowOf[arrow.from.layer] === rowOf[arrow.to.layer]) bends += Math.max(0, arrow.to.layer - arrow.from.layer - 1);
  const ordered: Item[][] = items.map((of) => [...of]);
  const passing: Item[][] = items.map(() => []);
  for (const arrow of arrows) {
    const { from, to } = arrow;
    if (rowOf[from.layer] !== rowOf[to.layer] || to.layer <= from.layer) continue;
    let last = from;
    for (let l = from.layer + 1; l < to.layer && bends <= MOST_BENDS; l++) {
      const bend: Item = { layer: l, nodes: [], columns: 0, cell: { width: 0, height: 0 }, width: 0, height: 4, before: [last], after: [], y: 0 };
      last.after.push(bend);
      arrow.bends.push(bend);
      passing[l]?.push(bend);
      last = bend;
    }
    last.after.push(to);
    to.before.push(last);
  }
  steps += arrows.length + Math.min(bends, MOST_BENDS);

  const settle = (of: Item[], wanted: readonly number[]): void => {
    const ys = spread(wanted, of.map((item) => item.height), GAP);
    of.forEach((item, i) => (item.y = ys[i] ?? 0));
    steps += of.length;
  };
  for (const row of rows) {
    for (const l of row) {
      const own = ordered[l] ?? [];
      const here = (item: Item, i: number): number => (item.before.length > 0 ? mean(item.before) : (own[i - 1]?.y ?? 0));
      settle(own, own.map(here));
      const through = (passing[l] ?? []).map((bend) => ({ bend, want: mean(bend.before) }));
      if (through.length > 0) {
        through.sort((a, b) => a.want - b.want);
        const merged: Item[] = [];
        let at = 0;
        for (const item of own) {
          for (let next = through[at]; next !== undefined && next.want < item.y; next = through[++at]) merged.push(next.bend);
          merged.push(item);
        }
        for (const { bend } of through.slice(at)) merged.push(bend);
        ordered[l] = merged;
        settle(merged, merged.map((item) => (item.before.length > 0 ? mean(item.before) : item.y)));
      }
    }
    for (const l of [...row].reverse()) {
      const of = ordered[l] ?? [];
      settle(of, of.map((item) => (item.after.length > 0 ? mean(item.after) : item.y)));
    }
    for (const l of row) {
      const of = ordered[l] ?? [];
      settle(of, of.map((item) => (item.before.length + item.after.length > 0 ? mean([...item.before, ...item.after]) : item.y)));
    }
  }

  // From the rows to the whole.
  const left: number[] = [];
  const gutters: number[] = [];
  const margin = rows.length > 1 ? ROW_MARGIN : MARGIN;
  let width = 0;
  let down = MARGIN;
  for (const row of rows) {
    let high = Infinity;
    let low = -Infinity;
    let x = margin;
    for (const l of row) {
      left[l] = x;
      x += (widths[l] ?? 0) + (gaps[l] ?? 0);
      for (const item of ordered[l] ?? []) {
        high = Math.min(high, item.y - item.height / 2);
        low = Math.max(low, item.y + item.height / 2);
      }
    }
    for (const l of row) for (const item of ordered[l] ?? []) item.y += down - high;
    width = Math.max(width, x - (gaps[row.at(-1) ?? 0] ?? 0) + (rows.length > 1 ? ROW_MARGIN : MARGIN));
    down += low - high;
    gutters.push(down + ROW_GAP / 2);
    down += ROW_GAP;
  }
  const height = rows.length === 0 ? 0 : down - ROW_GAP + MARGIN;

  const placed: PlacedNode[] = [];
  const frames: Box[] = [];
  for (const of of items) {
    for (const item of of) {
      const start = (left[item.layer] ?? 0) + ((widths[item.layer] ?? 0) - item.width) / 2;
      const grid = item.columns > 0;
      if (grid) frames.push({ left: start, top: item.y - item.height / 2, right: start + item.width, bottom: item.y + item.height / 2 });
      const cell = item.cell;
      item.nodes.forEach((i, n) => {
        const node = nodes[i];
        if (node === undefined) return;
        const x = grid ? start + FRAME + (n % item.columns) * (cell.width + GAP) + cell.width / 2 : start + item.width / 2;
        const y = grid ? item.y - item.height / 2 + FRAME + Math.floor(n / item.columns) * (cell.height + GAP) + cell.height / 2 : item.y;
        placed[i] = { name: node.name, width: cell.width, height: node.height, x, y, layer: item.layer };
      });
    }
  }
  const drawn = arrows.map((arrow, n): PlacedEdge => {
    const { from, to, edge, count } = arrow;
    const right = (item: Item): number => (left[item.layer] ?? 0) + ((widths[item.layer] ?? 0) + item.width) / 2;
    const begin = { x: right(from), y: from.y };
    const end = { x: right(to) - to.width, y: to.y };
    const [a, b] = [rowOf[from.layer] ?? 0, rowOf[to.layer] ?? 0];
    if (a === b && to.layer > from.layer) {
      const points = [begin];
      for (const bend of arrow.bends) {
        const x = left[bend.layer] ?? 0;
        points.push({ x, y: bend.y }, { x: x + (widths[bend.layer] ?? 0), y: bend.y });
      }
      points.push(end);
      return { ...edge, count, d: path(points), box: boxOf(points) };
    }
    // Around the boxes: in the gaps between layers, between rows and left of all.
    const lane = ((n % 5) - 2) * 3;
    const out = (left[from.layer] ?? 0) + (widths[from.layer] ?? 0) + 16 + lane;
    const into = (left[to.layer] ?? 0) - 18 + lane;
    const gutter = (row: number): number => (gutters[row] ?? MARGIN) + lane;
    const points = [begin, { x: out, y: begin.y }, { x: out, y: gutter(a) }];
    if (b !== a && b !== a + 1) {
      const over = b === 0 ? MARGIN / 2 : gutter(b - 1);
      points.push({ x: 10 + lane, y: gutter(a) }, { x: 10 + lane, y: over }, { x: into, y: over });
    } else points.push({ x: into, y: gutter(a) });
    points.push({ x: into, y: end.y }, end);
    return { ...edge, count, d: corners(points), box: boxOf(points) };
  });
  const around = arrows.some(({ from, to }) => rowOf[from.layer] === rowOf[to.layer] && to.layer <= from.layer);
  return { width, height: height + (around ? ROW_GAP : 0), nodes: placed, edges: drawn, frames, steps };
}

/** Of each layer, whether all in it need the same and are needed by the same, so that one arrow says all. */
function alike(layers: readonly (readonly number[])[], known: readonly { from: number; to: number; edge: GraphEdge }[]): boolean[] {
  const asked = new Set(layers.flatMap((of) => (of.length > MOST_ALIKE && of.length <= MOST_STACKED ? of : [])));
  const signs = new Map<number, string[]>();
  const sign = (of: number, text: string): void => {
    if (asked.has(of)) signs.set(of, [...(signs.get(of) ?? []), text]);
  };
  for (const { from, to, edge } of known) {
    sign(to, `<${from}${edge.on}`);
    sign(from, `>${to}${edge.on}`);
  }
  return layers.map((of) => !asked.has(of[0] ?? -1) || new Set(of.map((i) => (signs.get(i) ?? []).sort().join())).size === 1);
}

/**
 * The boxes of one layer: alone, one under the other, or as a grid. Boxes of many tasks are wider than those of one: each
 * kind has its own width, and those of many stand before the grid of the others.
 */
function itemsOf(of: readonly number[], layer: number, nodes: readonly GraphNode[], most: number): Item[] {
  const kinds = new Map<number, number[]>();
  for (const i of of) {
    const height = nodes[i]?.height ?? 0;
    const kind = kinds.get(height);
    if (kind === undefined) kinds.set(height, [i]);
    else kind.push(i);
  }
  const cells = new Map([...kinds].map(([height, kind]) => [height, largest(kind, nodes)]));
  const alone = (i: number): Item => {
    const cell = cells.get(nodes[i]?.height ?? 0) ?? { width: 0, height: 0 };
    return { layer, columns: 0, ...cell, nodes: [i], cell, before: [], after: [], y: 0 };
  };
  if (of.length <= most) return of.map(alone);
  const byHeight = [...kinds].sort(([a], [b]) => b - a);
  return byHeight.flatMap(([height, kind]) => {
    const cell = cells.get(height) ?? { width: 0, height: 0 };
    if (kind.length <= Math.min(most, MOST_ALIKE) && kinds.size > 1) return kind.map(alone);
    const square = Math.sqrt((kind.length * (cell.width + GAP)) / (cell.height + GAP) / SHAPE);
    // Where nothing stands beside it there is room for longer lines.
    const lines = most === MOST_LOOSE ? Math.max(1, Math.floor(square)) : Math.max(2, Math.round(square));
    const columns = Math.ceil(kind.length / lines);
    const width = columns * (cell.width + GAP) - GAP + 2 * FRAME;
    const high = Math.ceil(kind.length / columns) * (cell.height + GAP) - GAP + 2 * FRAME;
    return [{ layer, nodes: kind, columns, cell, width, height: high, before: [], after: [], y: 0 }];
  });
}

function largest(of: readonly number[], nodes: readonly GraphNode[]): { width: number; height: number } {
  let [width, height] = [0, 0];
  for (const i of of) {
    width = Math.max(width, nodes[i]?.width ?? 0);
    height = Math.max(height, nodes[i]?.height ?? 0);
  }
  return { width, height };
}

/** The layers in rows, so that the whole has the shape of a screen. */
function rowsOf(widths: readonly number[], gaps: readonly number[], items: readonly (readonly Item[])[]): number[][] {
  const all = widths.map((_, l) => l);
  const total = widths.reduce((sum, width, l) => sum + width + (gaps[l] ?? 0), 0);
  const high = items.reduce((most, of) => Math.max(most, of.reduce((sum, item) => sum + item.height + GAP, 0)), 0);
  if (total < LONG || total < TOO_LONG * high) return all.length > 0 ? [all] : [];
  const most = Math.max(LEAST_ROW, Math.sqrt(total * (high + ROW_GAP) * SHAPE));
  const rows: number[][] = [[]];
  let width = 0;
  for (const l of all) {
    const own = (widths[l] ?? 0) + (gaps[l] ?? 0);
    if (width > 0 && width + own > most) {
      rows.push([]);
      width = 0;
    }
    rows.at(-1)?.push(l);
    width += own;
  }
  return rows;
}

function boxOf(points: readonly Point[]): Box {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { x, y } of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

/** An arrow from one placed box to another, where a grid's own arrow stands for many. */
export const direct = (from: PlacedNode, to: PlacedNode): string => path([{ x: from.x + from.width / 2, y: from.y }, { x: to.x - to.width / 2, y: to.y }]);

export const shorten = (name: string, most = 22): string => (name.length <= most ? name : `${name.slice(0, most - 1)}…`);
