import { expect, test } from "vitest";

import { type MetricsAnswer, amount, fromMetrics, resourceName } from "./metrics";
import { fromUsage } from "./node-usage";
import { type Measured, NOTHING, STEPS, closer, gpuKey, gpuName, isMeasured, joined, momentIn, nearest, plotsOf, roomy, sentence, since, summary, ticks, told, wider, withGaps } from "./series";

const of = (at: number[], mean: (number | null)[], most?: (number | null)[]): Measured => ({
  ...NOTHING,
  at,
  steps: at.map(() => 1),
  columns: { cpu: { mean, ...(most ? { most } : {}) } },
});

test("what comes anew is added once", () => {
  const old = of([1, 2, 3], [0.1, 0.2, 0.3]);
  const fresh = of([3, 4], [9, 0.4]);
  expect(joined(old, fresh)).toEqual(of([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]));
  expect(joined(old, of([2, 3], [9, 9]))).toBe(old);
  expect(joined(NOTHING, fresh)).toEqual(fresh);
});

test("a point alone is its own extreme beside thinned ones, and a column that begins later was not measured before", () => {
  const thinned = of([10, 20], [0.5, 0.6], [0.9, 1]);
  const single = { ...of([21], [0.7]), columns: { cpu: { mean: [0.7] }, memory: { mean: [5] } } };
  const both = joined(thinned, single);
  expect(both.columns["cpu"]).toEqual({ mean: [0.5, 0.6, 0.7], most: [0.9, 1, 0.7] });
  expect(both.columns["memory"]).toEqual({ mean: [null, null, 5] });
  expect(joined(single, of([30], [0.1], [0.8])).columns["cpu"]).toEqual({ mean: [0.7, 0.1], most: [0.7, 0.8] });
});

test("time without points is a gap, and a late point is none", () => {
  const holed = withGaps(of([0, 1, 2, 4, 60, 61], [1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]));
  expect(holed.at).toEqual([0, 1, 2, 4, 32, 60, 61]);
  expect(holed.columns["cpu"]?.mean).toEqual([1, 1, 1, 1, null, 1, 1]);
  expect(holed.columns["cpu"]?.most?.[4]).toBeNull();
  const whole = of([0, 1, 2], [1, 2, 3]);
  expect(withGaps(whole)).toBe(whole);
  // Points of ten minutes are ten minutes apart.
  const rare = { ...of([0, 600, 1200], [1, 1, 1]), steps: [600, 600, 600] };
  expect(withGaps(rare)).toBe(rare);
});

test("a window moves on", () => {
  expect(since(of([1, 2, 3], [4, 5, 6], [7, 8, 9]), 2)).toEqual(of([2, 3], [5, 6], [8, 9]));
  expect(since(of([1], [1]), 9).at).toEqual([]);
});

test("sums count points by the time they stand for", () => {
  const mixed = { ...of([5, 10.5], [0, 1], [0.5, 1]), steps: [9, 1] };
  const column = mixed.columns["cpu"] ?? { mean: [] };
  expect(summary(mixed, column, { from: 0, to: 20 })).toEqual({ last: 1, mean: 0.1, least: 0, most: 1 });
  expect(summary(mixed, column, { from: 0, to: 6 })?.most).toBe(0.5);
  expect(summary(mixed, column, { from: 11, to: 12 })).toBeNull();
});

const answer: MetricsAnswer = {
  sentence: "",
  step_s: 1,
  gpus: [
    { uuid: "GPU-1a2b3c4d-5e6f", model: "A100", simulated: false },
    { uuid: "GPU-99999999-0000", model: "A100", simulated: false },
  ],
  at: [100, 101],
  columns: [
    { name: "cpu_used", gpu: null, mean: [1, 2], max: [1, 2] },
    { name: "memory_bytes", gpu: null, mean: [2 ** 30, 2 ** 30], max: [2 ** 30, 2 ** 31] },
    { name: "utilisation", gpu: 0, mean: [0.5, null], max: [0.5, null] },
    { name: "utilisation", gpu: 1, mean: [0.25, 0.75], max: [0.25, 0.75] },
    { name: "network_sent_bytes_per_s", gpu: null, mean: [1024, 0], max: [1024, 0] },
    { name: "of a later version", gpu: null, mean: [1, 1], max: [1, 1] },
  ],
  efficiency: null,
};

test("an attempt's charts: what was not measured says so, each GPU has its line", () => {
  const measured = fromMetrics(answer);
  expect(measured.columns["memory"]?.most).toEqual([2 ** 30, 2 ** 31]);
  expect(measured.columns["cpu"]?.most).toBeUndefined();
  const plots = plotsOf(measured);
  expect(plots.map((plot) => [plot.title, plot.lines.map((line) => line.name), plot.lines.some(isMeasured)])).toEqual([
    ["CPUs in use", [""], true],
    ["Memory", [""], true],
    ["GPU utilisation", ["GPU 0", "GPU 1"], true],
    ["GPU memory", ["GPU 0", "GPU 1"], false],
    ["GPU memory copies", ["GPU 0", "GPU 1"], false],
    ["GPU temperature", ["GPU 0", "GPU 1"], false],
    ["GPU power", ["GPU 0", "GPU 1"], false],
    ["Network", ["sent"], true],
  ]);
  const use = plots[2];
  expect(use && sentence(measured, use, { from: 0, to: 200 })).toBe(
    "GPU utilisation. GPU 0: mean 50 %, at most 50 %, last 50 %; GPU 1: mean 50 %, at most 75 %, last 75 %.",
  );
});

test("of a damaged file the cards are told apart all the same", () => {
  const blank = { ...answer, gpus: answer.gpus.map((gpu) => ({ ...gpu, uuid: "", model: "" })) };
  const use = plotsOf(fromMetrics(blank)).find((plot) => plot.title === "GPU utilisation");
  expect(use?.lines.map((line) => line.column.mean)).toEqual([[0.5, null], [0.25, 0.75]]);
});

test("asked and used are told in the units of the resource", () => {
  const row = (resource: string, unit: string) => ({ resource, unit, asked: 0, used: 0, share: 0, sentence: "" });
  expect(amount(row("time", "seconds"), 7200)).toBe("2 h");
  expect(amount(row("memory", "bytes"), 2 ** 30)).toBe("1.0 GiB");
  expect(amount(row("gpu_utilisation", "share"), 0.35)).toBe("35 %");
  expect(amount(row("later", "lumens"), 1234.5)).toBe("1230 lumens");
  expect([resourceName(row("cpus", "cpus")), resourceName(row("later", "lumens"))]).toEqual(["CPUs, on average", "later"]);
});

test("a machine's history: means with their peaks, and of what is free the least", () => {
  const gpu = { uuid: "GPU-a", model: "T4", index: 3, memory_utilisation: null, memory_used_bytes: null, temperature_c: 40, power_w: null };
  const point = (at: number, cpus: number | null, free: number, use: number) => ({ at, span_s: 60, cpus_used: cpus, memory_used_bytes: 5, disk_free_bytes: free, gpus: [{ ...gpu, utilisation: use }] });
  const measured = fromUsage({
    points: [
      { ...point(30, 1, 100, 0.5), peak: point(30, 4, 80, 1) },
      { ...point(90, null, 90, 0.5), peak: null },
    ],
  });
  expect(measured.steps).toEqual([60, 60]);
  expect(measured.columns["cpu"]).toEqual({ mean: [1, null], most: [4, null] });
  expect(measured.columns["disk_free"]).toEqual({ mean: [100, 90], least: [80, 90] });
  expect(measured.columns[gpuKey("GPU-a", "utilisation")]).toEqual({ mean: [0.5, 0.5], most: [1, 0.5] });
  expect(measured.gpus).toEqual([{ uuid: "GPU-a", model: "T4", index: 0 }]);
});

test("a point alone has room around it", () => {
  expect(roomy({ from: 7, to: 7 }, 10)).toEqual({ from: 2, to: 12 });
  expect(roomy({ from: 0, to: 60 }, 10)).toEqual({ from: 0, to: 60 });
});

test("the nearest point to a moment", () => {
  expect(nearest([], 5)).toBe(-1);
  expect([0, 14, 15, 16, 99].map((moment) => nearest([10, 20, 30], moment))).toEqual([0, 0, 0, 1, 2]);
});

test("zooming by keys stays inside the whole", () => {
  const whole = { from: 0, to: 100 };
  expect(closer(whole, 90, 5)).toEqual({ from: 50, to: 100 });
  expect(closer({ from: 40, to: 46 }, 43, 5)).toEqual({ from: 40.5, to: 45.5 });
  expect(wider({ from: 90, to: 100 }, whole)).toEqual({ from: 80, to: 100 });
  expect(wider({ from: 20, to: 80 }, whole)).toBeNull();
});

test("values, names and moments as people read them", () => {
  expect([told("share", 0.124), told("cpus", 1.256), told("cpus", 12.34), told("bytes_per_s", 2048), told("watt", null)]).toEqual(["12 %", "1.26", "12.3", "2.0 KiB/s", "–"]);
  expect(gpuName({ uuid: "GPU-1a2b3c4d-5e6f-7788", model: "A100", index: 0 })).toBe("A100 · GPU-1a2b3c4d");
  expect(gpuName({ uuid: "MIG-aaaabbbb-cccc-0", model: "A100 1g.5gb", index: 0 })).toBe("A100 1g.5gb · MIG-aaaabbbb");
  expect(gpuName({ uuid: "GPU-simulated-node-1", model: "X", index: 0 })).toBe("X · GPU-simulated-node-1");
  const noon = new Date(2026, 5, 1, 12).getTime() / 1000;
  expect(momentIn(noon, { from: noon - 60, to: noon })).toMatch(/UTC/);
  expect(momentIn(noon, { from: noon - 86_400, to: noon })).toContain("Jun");
  expect(ticks([noon, noon + 43_200], 43_200)[1]).toContain("2");
  expect(ticks([noon], 60 * 86_400)[0]).toContain("2026");
});

test("a value axis has evenly spaced words", () => {
  for (const unit of ["share", "celsius", "watt", "cpus"] as const) {
    for (const step of STEPS[unit]) {
      const words = [1, 2, 3, 4].map((n) => parseFloat(told(unit, n * step)) / (unit === "share" ? 100 : 1));
      words.forEach((word, n) => expect(word).toBeCloseTo((n + 1) * step, 6));
    }
  }
});
