/** What an attempt measured, as the charts draw it. */
import type { components } from "../api/generated/schema";
import { span } from "./format";
import { type Column, type Measured, gpuKey, told, usualStep } from "./series";

type AttemptMetrics = components["schemas"]["AttemptMetrics"];
/** The answer, as far as it matters here. */
export type MetricsAnswer = Pick<AttemptMetrics, "sentence" | "step_s" | "efficiency" | "at"> & {
  readonly gpus: readonly Pick<AttemptMetrics["gpus"][number], "uuid" | "model" | "simulated">[];
  readonly columns: readonly Omit<AttemptMetrics["columns"][number], "unit">[];
};
export type Asked = components["schemas"]["Asked"];
export type Efficiency = components["schemas"]["Efficiency"];

const keyOf: { readonly [name: string]: string } = {
  cpu_used: "cpu",
  memory_bytes: "memory",
  disk_read_bytes_per_s: "disk_read",
  disk_written_bytes_per_s: "disk_written",
  network_received_bytes_per_s: "network_received",
  network_sent_bytes_per_s: "network_sent",
};

export function fromMetrics({ step_s, gpus, at, columns }: MetricsAnswer): Measured {
  const step = step_s ?? usualStep(at);
  // A damaged file no longer knows which cards they were, only how many.
  const names = gpus.map(({ uuid, model }, index) => ({ uuid: uuid || `GPU ${index}`, model: model || "unknown model", index }));
  const own: Record<string, Column> = {};
  for (const { name, gpu, mean, max } of columns) {
    const uuid = gpu === null ? null : names[gpu]?.uuid;
    const key = uuid === null ? keyOf[name] : uuid && gpuKey(uuid, name);
    if (key === undefined) continue;
    own[key] = max.some((value, i) => value !== mean[i]) ? { mean, most: max } : { mean };
  }
  return { at, steps: at.map(() => step), columns: own, gpus: names };
}

const resourceText: { readonly [resource: string]: string } = {
  time: "Time",
  cpus: "CPUs, on average",
  memory: "Memory, at most",
  gpu_utilisation: "GPU utilisation, on average",
  gpu_memory: "GPU memory, at most",
};

export const resourceName = ({ resource }: Asked): string => resourceText[resource] ?? resource;

/** "4.0 GiB", "2 h", "35 %". */
export function amount({ unit }: Asked, value: number): string {
  if (unit === "seconds") return span(value);
  if (unit === "cpus" || unit === "bytes" || unit === "share") return told(unit, value);
  return `${Number(value.toPrecision(3))} ${unit}`;
}
