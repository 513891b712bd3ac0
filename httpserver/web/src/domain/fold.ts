/** A DAG of many tasks as one of few nodes: those of one name pattern, or of one state, are one. */
import type { TaskState } from "../api/client";
import { type GraphEdge, layersOf } from "./graph";
import { label, taskTone } from "./states";

export type FoldMode = "none" | "name" | "state";
export const FOLD_MODES: readonly FoldMode[] = ["none", "name", "state"];

/** More than this is folded, unless the reader chose otherwise. */
export const MANY_NODES = 150;
/** Fewer of a kind stand for themselves. */
const LEAST_FOLDED = 3;

export interface GraphTask {
  readonly name: string;
  readonly state: TaskState;
}

/** A task, or many: then `members` has their names. No task has such an id: it has a character that no name may have. */
export interface DrawnNode {
  readonly id: string;
  readonly label: string;
  readonly members: readonly string[] | null;
}

export interface Folded {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly GraphEdge[];
  /** The node that stands for a task. */
  readonly nodeOf: ReadonlyMap<string, string>;
}

export const defaultFold = (count: number): FoldMode => (count > MANY_NODES ? "name" : "none");

/** `train-*` of train-17. */
export const pattern = (name: string): string => name.replace(/\d+/g, "*");

/** `opened`: ids of nodes whose members stand for themselves. */
export function fold(tasks: readonly GraphTask[], edges: readonly GraphEdge[], mode: FoldMode, opened: ReadonlySet<string>): Folded {
  const groups = mode === "none" ? new Map<string, string>() : mode === "name" ? byName(tasks, edges) : byState(tasks, edges);
  const counts = new Map<string, string[]>();
  for (const { name } of tasks) {
    const group = groups.get(name);
    if (group === undefined) continue;
    const members = counts.get(group);
    if (members === undefined) counts.set(group, [name]);
    else members.push(name);
  }
  const nodeOf = new Map<string, string>();
  const nodes: DrawnNode[] = [];
  const seen = new Set<string>();
  for (const { name } of tasks) {
    const group = groups.get(name);
    const members = group === undefined ? undefined : counts.get(group);
    if (group === undefined || members === undefined || members.length < LEAST_FOLDED || opened.has(group)) {
      nodeOf.set(name, name);
      nodes.push({ id: name, label: name, members: null });
      continue;
    }
    nodeOf.set(name, group);
    if (seen.has(group)) continue;
    seen.add(group);
    nodes.push({ id: group, label: groupLabel(group), members });
  }
  if (seen.size === 0) return { nodes, edges, nodeOf };
  const known = new Map<string, GraphEdge>();
  for (const { source, target, on } of edges) {
    const [from, to] = [nodeOf.get(source), nodeOf.get(target)];
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from}\n${to}\n${on}`;
    if (!known.has(key)) known.set(key, { source: from, target: to, on });
  }
  return { nodes, edges: [...known.values()], nodeOf };
}

/** What stands on the node of a group: its id, without what tells it from others. */
export const groupLabel = (id: string): string => id.split("\n")[0] ?? id;

function byName(tasks: readonly GraphTask[], edges: readonly GraphEdge[]): Map<string, string> {
  const groups = new Map<string, string>(tasks.map(({ name }) => [name, pattern(name)]));
  let alone = few(tasks, groups);
  const nodes = (): number => new Set(groups.values()).size;
  // Names without numbers, as letters and digits by chance: their first word, and at last their place in the graph.
  if (nodes() > MANY_NODES) {
    for (const name of alone) groups.set(name, `${/^[^-._]*[-._]?/.exec(name)?.[0] ?? ""}*`);
    alone = few(tasks, groups);
  }
  if (nodes() > MANY_NODES) {
    const layer = layerByName(tasks, edges);
    for (const name of alone) groups.set(name, `others\n${layer.get(name) ?? 0}`);
  }
  return groups;
}

/** Those whose group is too small to fold. */
function few(tasks: readonly GraphTask[], groups: ReadonlyMap<string, string>): string[] {
  const counts = new Map<string, number>();
  for (const group of groups.values()) counts.set(group, (counts.get(group) ?? 0) + 1);
  return tasks.flatMap(({ name }) => ((counts.get(groups.get(name) ?? "") ?? 0) < LEAST_FOLDED ? [name] : []));
}

function byState(tasks: readonly GraphTask[], edges: readonly GraphEdge[]): Map<string, string> {
  const layer = layerByName(tasks, edges);
  return new Map(tasks.map(({ name, state }) => [name, `${label(state)}\n${layer.get(name) ?? 0}`]));
}

function layerByName(tasks: readonly GraphTask[], edges: readonly GraphEdge[]): Map<string, number> {
  const places = new Map(tasks.map(({ name }, i) => [name, i]));
  const pairs: [number, number][] = [];
  for (const { source, target } of edges) {
    const [from, to] = [places.get(source), places.get(target)];
    if (from !== undefined && to !== undefined) pairs.push([from, to]);
  }
  const layers = layersOf(tasks.length, pairs);
  return new Map(tasks.map(({ name }, i) => [name, layers[i] ?? 0]));
}

/** How many of these are in which state: what failed first, then by number. */
export function countStates(members: readonly string[], states: ReadonlyMap<string, TaskState>): [TaskState, number][] {
  const counts = new Map<TaskState, number>();
  for (const name of members) {
    const state = states.get(name) ?? "BLOCKED";
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  const good = (state: TaskState): number => (taskTone[state] === "bad" ? 0 : 1);
  return [...counts].sort(([s, a], [t, b]) => good(s) - good(t) || b - a);
}

export const countText = (counts: readonly (readonly [TaskState, number])[]): string => counts.map(([state, n]) => `${n} ${label(state)}`).join(", ");

/** What a reader chose for one job's graph; it lasts as long as the tab. */
export interface GraphChoice {
  readonly fold: FoldMode | null;
  readonly opened: readonly string[];
  readonly zoom: number | null;
}

export const LEAST_ZOOM = 0.02;
export const MOST_ZOOM = 3;
export const NO_CHOICE: GraphChoice = { fold: null, opened: [], zoom: null };
const slot = (job: string): string => `headway.graph.${job}`;
const MOST_KEPT = 200;

export function loadChoice(job: string): GraphChoice {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(slot(job)) ?? "null");
    if (typeof kept !== "object" || kept === null) return NO_CHOICE;
    const { fold: mode, opened, zoom } = kept as { [key: string]: unknown };
    return {
      fold: FOLD_MODES.find((one) => one === mode) ?? null,
      opened: Array.isArray(opened) ? opened.filter((one) => typeof one === "string").slice(0, MOST_KEPT) : [],
      zoom: typeof zoom === "number" && zoom >= LEAST_ZOOM && zoom <= MOST_ZOOM ? zoom : null,
    };
  } catch {
    return NO_CHOICE;
  }
}

export function keepChoice(job: string, choice: GraphChoice): void {
  try {
    sessionStorage.setItem(slot(job), JSON.stringify({ ...choice, opened: choice.opened.slice(0, MOST_KEPT) }));
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}
