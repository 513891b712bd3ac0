/** A cell of the table of GPUs. */
import type { Node } from "../api/client";
import type { GpuColumn, Unit } from "../api/generated/gpu-columns";
import { size } from "./format";

type Gpu = Node["gpus"][number];

const shown: Record<Unit, (value: number) => string> = {
  share: (value) => `${Math.round(value * 100)} %`,
  bytes: size,
  celsius: (value) => `${Math.round(value)} °C`,
  watt: (value) => `${Math.round(value)} W`,
};

const passing: Record<string, string> = {
  device_request: "Docker's device request",
  cdi: "the engine's CDI lists",
  device_nodes: "their device files",
};

/** How a machine's containers are given GPUs, in words. */
export const gpuPassing = (way: string): string => passing[way] ?? way;

/** "1.0 GiB of 40.0 GiB", "12 %"; a dash where the driver does not tell it. */
export function gpuCell(gpu: Gpu, column: GpuColumn): string {
  const value = gpu[column.key];
  const whole = column.of === null ? null : gpu[column.of];
  const parts = [value, whole].filter((part) => typeof part === "number").map(shown[column.unit]);
  return parts.join(" of ") || "–";
}
