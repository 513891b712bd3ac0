import { expect, test } from "vitest";

import type { Node } from "../api/client";
import { GPU_COLUMNS, type GpuColumn } from "../api/generated/gpu-columns";
import { gpuCell, gpuPassing } from "./gpu";

const gpu = {
  memory_bytes: 40 * 2 ** 30,
  memory_used_bytes: 2 ** 30,
  utilisation: 0.124,
  temperature_c: 61.4,
  power_w: 250.6,
} as Node["gpus"][number];
const unread = { memory_bytes: 40 * 2 ** 30, memory_used_bytes: null, utilisation: null } as Node["gpus"][number];

const cells = (of: Node["gpus"][number]) => GPU_COLUMNS.map((column) => [column.head, gpuCell(of, column)]);

test("a GPU shows its memory and its use", () => {
  expect(cells(gpu)).toEqual([
    ["Memory", "1.0 GiB of 40.0 GiB"],
    ["Use", "12 %"],
  ]);
});

test("what the driver does not tell is a dash, or its whole alone", () => {
  expect(cells(unread)).toEqual([
    ["Memory", "40.0 GiB"],
    ["Use", "–"],
  ]);
});

test("how GPUs are given is told in words, also by a newer server's word", () => {
  expect(gpuPassing("device_nodes")).toBe("their device files");
  expect(gpuPassing("teleport")).toBe("teleport");
});

test("every unit can be shown", () => {
  const column = (key: GpuColumn["key"], unit: GpuColumn["unit"]): GpuColumn => ({ key, head: "", unit, of: null });
  expect(gpuCell(gpu, column("temperature_c", "celsius"))).toBe("61 °C");
  expect(gpuCell(gpu, column("power_w", "watt"))).toBe("251 W");
});
