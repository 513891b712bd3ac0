/** What was measured over time, as the charts draw it. */
import type { Unit as GpuUnit } from "../api/generated/gpu-columns";
import { size } from "./format";
import { zone } from "./zone";

export type Unit = GpuUnit | "cpus" | "bytes_per_s";

/** Null: not measured then. */
export type Values = readonly (number | null)[];

/** One thing that was measured. `most` and `least`: the extremes, where a point stands for a span of time. */
export interface Column {
  readonly mean: Values;
  readonly most?: Values | undefined;
  readonly least?: Values | undefined;
}

export interface GpuName {
  readonly uuid: string;
  readonly model: string;
  /** Among those that are shown. */
  readonly index: number;
}

/** Points in order of time. `steps`: how much time each stands for, in seconds. */
export interface Measured {
  readonly at: readonly number[];
  readonly steps: readonly number[];
  readonly columns: { readonly [key: string]: Column };
  readonly gpus: readonly GpuName[];
}

export const NOTHING: Measured = { at: [], steps: [], columns: {}, gpus: [] };

export interface Line {
  readonly key: string;
  /** Empty: the plot has only this line. */
  readonly name: string;
  /** Which colour it has. */
  readonly colour: number;
  /** Whether it belongs to one GPU, which can be hidden. */
  readonly uuid: string | null;
  readonly column: Column;
}

export interface Plot {
  readonly key: string;
  readonly title: string;
  readonly unit: Unit;
  readonly lines: readonly Line[];
}

export const gpuKey = (uuid: string, reading: string): string => `gpu/${uuid}/${reading}`;

/** The time between two points, where nobody says it: the usual one. */
export function usualStep(at: readonly number[]): number {
  const steps = at.slice(1).map((moment, i) => moment - (at[i] ?? moment));
  steps.sort((a, b) => a - b);
  return steps[Math.floor(steps.length / 2)] ?? 0;
}

/** Two answers after one another as one; what the second has anew of the first's time is left out. */
export function joined(old: Measured, fresh: Measured): Measured {
  const last = old.at.at(-1) ?? -Infinity;
  const from = fresh.at.findIndex((moment) => moment > last);
  if (from < 0) return old;
  const before = old.at.length;
  const count = fresh.at.length - from;
  const padded = (values: Values | undefined, other: Values | undefined, length: number, cut: number): Values =>
    (values ?? other ?? new Array<null>(length).fill(null)).slice(cut);
  const columns: Record<string, Column> = {};
  for (const key of new Set([...Object.keys(old.columns), ...Object.keys(fresh.columns)])) {
    const [a, b] = [old.columns[key], fresh.columns[key]];
    const part = (name: "mean" | "most" | "least"): Values => [
      ...padded(a?.[name], a?.mean, before, 0),
      ...padded(b?.[name], b?.mean, from + count, from),
    ];
    columns[key] = {
      mean: part("mean"),
      ...(a?.most || b?.most ? { most: part("most") } : {}),
      ...(a?.least || b?.least ? { least: part("least") } : {}),
    };
  }
  const known = new Set(old.gpus.map((gpu) => gpu.uuid));
  const gpus = [...old.gpus, ...fresh.gpus.filter((gpu) => !known.has(gpu.uuid))];
  return { at: [...old.at, ...fresh.at.slice(from)], steps: [...old.steps, ...fresh.steps.slice(from)], columns, gpus };
}

/** What is not older than a moment: a window that moves on. */
export function since(all: Measured, moment: number): Measured {
  const cut = all.at.findIndex((one) => one >= moment);
  if (cut === 0) return all;
  if (cut < 0) return { ...NOTHING, gpus: all.gpus };
  const columns: Record<string, Column> = {};
  for (const [key, column] of Object.entries(all.columns)) {
    columns[key] = {
      mean: column.mean.slice(cut),
      ...(column.most ? { most: column.most.slice(cut) } : {}),
      ...(column.least ? { least: column.least.slice(cut) } : {}),
    };
  }
  return { ...all, at: all.at.slice(cut), steps: all.steps.slice(cut), columns };
}

/** So many usual steps without a point are a gap. One late point is none. */
const GAP_STEPS = 3;
/** Beats of a busy machine come late. */
const LEAST_GAP_S = 6;

/** With an empty point in each gap, so that no line goes over time in which nothing was measured. */
export function withGaps(all: Measured): Measured {
  const keep: (number | null)[] = [];
  const at: number[] = [];
  const steps: number[] = [];
  all.at.forEach((moment, i) => {
    const before = all.at[i - 1];
    const step = Math.max(all.steps[i] ?? 0, all.steps[i - 1] ?? 0);
    if (before !== undefined && moment - before > Math.max(LEAST_GAP_S, GAP_STEPS * step)) {
      keep.push(null);
      at.push((before + moment) / 2);
      steps.push(0);
    }
    keep.push(i);
    at.push(moment);
    steps.push(all.steps[i] ?? 0);
  });
  if (at.length === all.at.length) return all;
  const spread = (values: Values): Values => keep.map((i) => (i === null ? null : (values[i] ?? null)));
  const columns: Record<string, Column> = {};
  for (const [key, column] of Object.entries(all.columns)) {
    columns[key] = {
      mean: spread(column.mean),
      ...(column.most ? { most: spread(column.most) } : {}),
      ...(column.least ? { least: spread(column.least) } : {}),
    };
  }
  return { ...all, at, steps, columns };
}

export const isMeasured = (line: Line): boolean => line.column.mean.some((value) => value !== null);

/** "A100 · GPU-1a2b3c4d": the model and what of the UUID tells cards apart. */
export function gpuName({ model, uuid }: GpuName): string {
  // Of a UUID its first part tells cards apart; of another id nothing is known.
  const short = /^(?:GPU|MIG)-[0-9a-f]{8}(?=-)/i.exec(uuid)?.[0] ?? uuid;
  return `${model} · ${short}`;
}

/** What people look at first comes first. `always`: shown as "not measured" too. */
const SINGLE: readonly { readonly key: string; readonly title: string; readonly unit: Unit; readonly always: boolean }[] = [
  { key: "cpu", title: "CPUs in use", unit: "cpus", always: true },
  { key: "memory", title: "Memory", unit: "bytes", always: true },
  { key: "disk_free", title: "Free disk space", unit: "bytes", always: false },
];
const PAIRS: readonly { readonly key: string; readonly title: string; readonly lines: readonly (readonly [string, string])[] }[] = [
  { key: "disk", title: "Disk", lines: [["disk_read", "read"], ["disk_written", "written"]] },
  { key: "network", title: "Network", lines: [["network_received", "received"], ["network_sent", "sent"]] },
];
export const GPU_PLOTS = [
  { reading: "utilisation", title: "GPU utilisation", unit: "share" },
  { reading: "memory_used_bytes", title: "GPU memory", unit: "bytes" },
  { reading: "memory_utilisation", title: "GPU memory copies", unit: "share" },
  { reading: "temperature_c", title: "GPU temperature", unit: "celsius" },
  { reading: "power_w", title: "GPU power", unit: "watt" },
] as const satisfies readonly { readonly reading: string; readonly title: string; readonly unit: Unit }[];

export function plotsOf(all: Measured): Plot[] {
  const empty: Column = { mean: all.at.map(() => null) };
  const single = SINGLE.filter(({ key, always }) => always || all.columns[key] !== undefined).map(
    ({ key, title, unit }): Plot => ({ key, title, unit, lines: [{ key, name: "", colour: 0, uuid: null, column: all.columns[key] ?? empty }] }),
  );
  const gpus =
    all.gpus.length === 0
      ? []
      : GPU_PLOTS.map(({ reading, title, unit }): Plot => ({
          key: `gpu-${reading}`,
          title,
          unit,
          lines: all.gpus.map((gpu) => ({
            key: gpuKey(gpu.uuid, reading),
            name: all.gpus.length > 1 ? `GPU ${gpu.index}` : "",
            colour: gpu.index,
            uuid: gpu.uuid,
            column: all.columns[gpuKey(gpu.uuid, reading)] ?? empty,
          })),
        }));
  const pairs = PAIRS.map(
    ({ key, title, lines }): Plot => ({
      key,
      title,
      unit: "bytes_per_s",
      lines: lines.flatMap(([column, name], i) => {
        const found = all.columns[column];
        return found === undefined ? [] : [{ key: column, name, colour: i, uuid: null, column: found }];
      }),
    }),
  ).filter((plot) => plot.lines.some(isMeasured));
  return [...single, ...gpus, ...pairs];
}

const shown: Record<Unit, (value: number) => string> = {
  share: (value) => `${Math.round(value * 100)} %`,
  bytes: size,
  bytes_per_s: (value) => `${size(value)}/s`,
  celsius: (value) => `${Math.round(value)} °C`,
  watt: (value) => `${Math.round(value)} W`,
  cpus: (value) => String(Number(value.toFixed(value < 10 ? 2 : 1))),
};

/** A value with its unit; a dash where nothing was measured. */
export const told = (unit: Unit, value: number | null | undefined): string => (value === null || value === undefined ? "–" : shown[unit](value));

const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);
const ROUND = [-2, -1, 0, 1, 2, 3, 4].flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
const WHOLE = ROUND.filter((step) => step >= 1);

/** Between two words of a value axis. `told` writes each of their multiples as it is: a step of 2.5 °C has no words. */
export const STEPS: Record<Unit, number[]> = {
  share: [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1],
  bytes: BINARY,
  bytes_per_s: BINARY,
  celsius: WHOLE,
  watt: WHOLE,
  cpus: ROUND,
};

/** The point nearest to a moment; -1: there is none. */
export function nearest(at: readonly number[], moment: number): number {
  let [low, high] = [0, at.length - 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((at[middle] ?? 0) < moment) low = middle + 1;
    else high = middle;
  }
  const before = at[low - 1];
  if (before !== undefined && Math.abs(before - moment) <= Math.abs((at[low] ?? Infinity) - moment)) return low - 1;
  return at.length === 0 ? -1 : low;
}

export interface Range {
  readonly from: number;
  readonly to: number;
}

export interface Summary {
  readonly last: number;
  readonly mean: number;
  readonly least: number;
  readonly most: number;
}

/** A line in numbers over a span of time; null: not measured there. Each point counts by the time it stands for. */
export function summary(all: Measured, column: Column, { from, to }: Range): Summary | null {
  let [sum, weights, least, most] = [0, 0, Infinity, -Infinity];
  let last: number | null = null;
  for (let i = 0; i < all.at.length; i++) {
    const moment = all.at[i] ?? 0;
    const value = column.mean[i] ?? null;
    if (moment < from || moment > to || value === null) continue;
    const weight = all.steps[i] || 1;
    sum += value * weight;
    weights += weight;
    least = Math.min(least, column.least?.[i] ?? value);
    most = Math.max(most, column.most?.[i] ?? value);
    last = value;
  }
  return last === null ? null : { last, mean: sum / weights, least, most };
}

/** One sentence for who does not see the chart. */
export function sentence(all: Measured, plot: Plot, range: Range): string {
  const parts = plot.lines.map((line) => {
    const found = summary(all, line.column, range);
    const name = line.name && `${line.name}: `;
    if (found === null) return `${name}not measured`;
    return `${name}mean ${told(plot.unit, found.mean)}, at most ${told(plot.unit, found.most)}, last ${told(plot.unit, found.last)}`;
  });
  return `${plot.title}. ${parts.join("; ")}.`;
}

/** A moment to the second with its date where the range is long, and its zone. */
export function momentIn(at: number, range: Range): string {
  const date = new Date(at * 1000);
  const long = range.to - range.from > 20 * 3600 || new Date(range.from * 1000).toDateString() !== new Date(range.to * 1000).toDateString();
  const day = long ? `${date.toLocaleDateString(undefined, { day: "numeric", month: "short" })}, ` : "";
  return `${day}${date.toLocaleTimeString()} ${zone(date)}`;
}

/** The words below the time axis. `step`: between two of them. */
export function ticks(splits: readonly number[], step: number): string[] {
  let day = "";
  return splits.map((at, i) => {
    const date = new Date(at * 1000);
    const today = date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
    const begins = i > 0 && day !== today;
    day = today;
    if (step >= 28 * 86_400) return date.toLocaleDateString(undefined, { month: "short", year: "numeric" });
    if (step >= 86_400 || begins) return today;
    return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" as const } : {}) });
  });
}

/** With so much time at least: a point alone stands in the middle. */
export function roomy({ from, to }: Range, least: number): Range {
  const missing = Math.max(0, least - (to - from)) / 2;
  return { from: from - missing, to: to + missing };
}

/** Half of it, around a moment; never less than a few points. */
export function closer(range: Range, around: number, least: number): Range {
  const width = Math.max(least, (range.to - range.from) / 2);
  const from = Math.min(Math.max(range.from, around - width / 2), Math.max(range.from, range.to - width));
  return { from, to: Math.min(range.to, from + width) };
}

/** Twice of it within the whole; null: that is the whole. */
export function wider(range: Range, whole: Range): Range | null {
  const width = 2 * (range.to - range.from);
  if (width >= whole.to - whole.from) return null;
  const from = Math.min(Math.max(whole.from, (range.from + range.to - width) / 2), whole.to - width);
  return { from, to: from + width };
}
