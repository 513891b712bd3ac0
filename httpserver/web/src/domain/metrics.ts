/** What an attempt measured, as the charts draw it. */
import { type Column, type Measured, type Values, gpuKey, usualStep } from "./series";

/** The answer's form, as far as it matters here. */
export interface MetricsAnswer {
  readonly header: {
    readonly every_s: number;
    readonly gpus: readonly { readonly uuid: string; readonly model: string; readonly memory_bytes: number }[];
  };
  readonly at: readonly number[];
  readonly columns: readonly {
    readonly name: string;
    /** Its place in the header; null: of the attempt as a whole. */
    readonly gpu: number | null;
    readonly mean: Values;
    readonly max: Values;
  }[];
  readonly lost: number;
  readonly efficiency: Efficiency | null;
}

export interface Efficiency {
  readonly rows: readonly { readonly name: string; readonly asked: string; readonly used: string; readonly share: number | null }[];
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

export function fromMetrics({ header, at, columns }: MetricsAnswer): Measured {
  const step = Math.max(header.every_s, usualStep(at));
  const own: Record<string, Column> = {};
  for (const { name, gpu, mean, max } of columns) {
    const uuid = gpu === null ? null : header.gpus[gpu]?.uuid;
    const key = uuid == null ? keyOf[name] : gpuKey(uuid, name);
    if (key === undefined) continue;
    own[key] = max.some((value, i) => value !== mean[i]) ? { mean, most: max } : { mean };
  }
  return { at, steps: at.map(() => step), columns: own, gpus: header.gpus.map(({ uuid, model }, index) => ({ uuid, model, index })) };
}

export const efficiencyOf = (answer: MetricsAnswer): Efficiency | null => answer.efficiency;
