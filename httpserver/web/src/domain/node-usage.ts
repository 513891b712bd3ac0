/** A machine's history as the charts draw it. */
import type { components } from "../api/generated/schema";
import { type Column, GPU_PLOTS, type GpuName, type Measured, type Values, gpuKey, usualStep } from "./series";

type UsagePoint = components["schemas"]["UsagePoint"];
/** The answer, as far as it matters here. */
type Gpu = Pick<UsagePoint["gpus"][number], "uuid" | "model" | "index" | (typeof GPU_PLOTS)[number]["reading"]>;
type Readings = Pick<UsagePoint, "cpus_used" | "memory_used_bytes" | "disk_free_bytes"> & { readonly gpus: readonly Gpu[] };
type Point = Readings & Pick<UsagePoint, "at" | "span_s"> & { readonly peak: Readings | null };

export function fromUsage({ points }: { readonly points: readonly Point[] }): Measured {
  const at = points.map((point) => point.at);
  const usual = usualStep(at);
  const peaks = points.some((point) => point.peak != null);
  const column = (read: (of: Readings) => number | null | undefined, edge: "most" | "least"): Column => {
    const all = (pick: (point: Point) => Readings): Values => points.map((point) => read(pick(point)) ?? null);
    const mean = all((point) => point);
    return peaks ? { mean, [edge]: all((point) => point.peak ?? point) } : { mean };
  };
  const columns: Record<string, Column> = {
    cpu: column((of) => of.cpus_used, "most"),
    memory: column((of) => of.memory_used_bytes, "most"),
    disk_free: column((of) => of.disk_free_bytes, "least"),
  };
  const names = new Map<string, { model: string; index: number }>();
  for (const point of points) for (const gpu of point.gpus) names.set(gpu.uuid, { model: gpu.model, index: gpu.index });
  const gpus = [...names]
    .sort(([, a], [, b]) => a.index - b.index)
    .map(([uuid, { model }], index): GpuName => ({ uuid, model, index }));
  for (const { uuid } of gpus) {
    for (const { reading } of GPU_PLOTS) {
      columns[gpuKey(uuid, reading)] = column((of) => of.gpus.find((gpu) => gpu.uuid === uuid)?.[reading], "most");
    }
  }
  return { at, steps: points.map((point) => point.span_s || usual), columns, gpus };
}
