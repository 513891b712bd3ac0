// Written by scripts/render_fields from headway/model/gpu_readings.py: never edit.
import type { Node } from "../client";

type Gpu = Node["gpus"][number];

export type Unit = "share" | "bytes" | "celsius" | "watt";

/** A column of the table of GPUs: one reading. */
export interface GpuColumn {
  readonly key: keyof Gpu;
  readonly head: string;
  readonly unit: Unit;
  /** What it is a part of. */
  readonly of: keyof Gpu | null;
}

/** In the order of the table. */
export const GPU_COLUMNS = [
  {"key": "memory_used_bytes", "head": "Memory", "unit": "bytes", "of": "memory_bytes"},
  {"key": "utilisation", "head": "Use", "unit": "share", "of": null},
] as const satisfies readonly GpuColumn[];
