/** What an attempt measured, as the charts draw it. */
import { span } from "./format";
import { type Column, type Measured, type Values, gpuKey, told, usualStep } from "./series";

/** The answer, as far as it matters here. */
export interface MetricsAnswer {
  /** Why there is nothing, or what is missing; empty: all is there. */
  readonly sentence: string;
  /** Between two points. */
  readonly step_s: number | null;
  readonly lost: number;
  readonly gpus: readonly { readonly uuid: string; readonly model: string; readonly simulated: boolean }[];
  readonly at: readonly number[];
  readonly columns: readonly {
    readonly name: string;
    /** Its place in `gpus`; null: of the attempt as a whole. */
    readonly gpu: number | null;
    readonly mean: Values;
    readonly max: Values;
  }[];
  readonly efficiency: Efficiency | null;
}

export interface Asked {
  readonly resource: string;
  readonly unit: string;
  readonly asked: number;
  readonly used: number;
  readonly share: number;
  readonly sentence: string;
}

export interface Efficiency {
  readonly final: boolean;
  readonly rows: readonly Asked[];
  readonly sentences: readonly string[];
}

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
