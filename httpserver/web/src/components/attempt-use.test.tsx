import { act } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Attempt } from "../api/client";
import type { MetricsAnswer } from "../domain/metrics";
import { type Drawn, button, drawn, press, until } from "../testing";

/** What the library was told, chart by chart. */
interface Told {
  readonly options: { readonly hooks: { readonly setSelect: ((u: unknown) => void)[]; readonly setCursor: ((u: unknown) => void)[] } };
  data: readonly (readonly (number | null)[])[];
  readonly series: { show: boolean }[];
}
const charts = vi.hoisted((): Told[] => []);

vi.mock("uplot", () => ({
  default: class {
    static sync = () => ({ plots: [] });
    readonly series: { show: boolean }[];
    constructor(
      readonly options: Told["options"] & { readonly series: unknown[] },
      public data: Told["data"],
    ) {
      this.series = options.series.map(() => ({ show: true }));
      charts.push(this);
    }
    setData(data: Told["data"]): void {
      this.data = data;
    }
    setSeries(index: number, { show }: { show: boolean }): void {
      Object.assign(this.series[index] ?? {}, { show });
    }
    redraw(): void {}
    setSelect(): void {}
    destroy(): void {
      charts.splice(charts.indexOf(this as unknown as Told), 1);
    }
  },
}));
vi.mock("uplot/dist/uPlot.min.css", () => ({}));

const { AttemptUse } = await import("./attempt-use");

const gpus = ["GPU-1a2b3c4d-5e6f", "GPU-99999999-0000"].map((uuid) => ({ uuid, model: "A100", simulated: false }));
const answer = (at: number[], more: Partial<MetricsAnswer> = {}): MetricsAnswer => ({
  sentence: "",
  step_s: 1,
  gpus,
  at,
  columns: [
    { name: "cpu_used", gpu: null, mean: at.map(() => 1.5), max: at.map(() => 1.5) },
    ...gpus.map((_, gpu) => ({ name: "utilisation", gpu, mean: at.map(() => 0.5), max: at.map(() => 0.75) })),
  ],
  efficiency: null,
  ...more,
});
const attempt = (more: Partial<Attempt> = {}): Attempt => ({ number: 1, started_at: 100, ended_at: null, gpus_simulated: false, ...more }) as Attempt;

let drawing: Drawn | undefined;
let asked: URL[] = [];
let answers: (url: URL) => Response = () => Response.json(answer([]));

beforeEach(() => {
  asked = [];
  charts.length = 0;
  vi.stubGlobal("matchMedia", () => ({ addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal("ResizeObserver", class {
    observe(): void {}
    disconnect(): void {}
  });
  vi.stubGlobal("fetch", async (input: string | Request) => {
    const url = new URL(typeof input === "string" ? input : input.url, "http://here");
    asked.push(url);
    return answers(url);
  });
});
afterEach(async () => {
  await drawing?.close();
  vi.unstubAllGlobals();
});

const show = async (of: Attempt): Promise<void> => {
  drawing = await drawn(<AttemptUse job="j1" task="train" attempt={of} />);
};
const text = (): string => document.body.textContent ?? "";

test("while it runs, points are asked for from the last one on", async () => {
  answers = (url) => Response.json(url.searchParams.has("since") ? answer([102, 103]) : answer([100, 101, 102]));
  await show(attempt());
  await until(() => expect(charts.length).toBe(2));
  expect(asked[0]?.pathname).toBe("/api/v1/jobs/j1/tasks/train/attempts/1/metrics");
  await until(() => expect(charts[0]?.data[0]).toEqual([100, 101, 102, 103]));
  expect(asked[1]?.searchParams.get("since")).toBe("102");
  // Two GPUs: the mean of each, and its maximum.
  expect(charts[1]?.data.length).toBe(5);
  expect(text()).toContain("GPU 1: A100 · GPU-99999999");
  expect(text()).toContain("Not measured: Memory, GPU memory");
});

test("a part that is dragged over is asked for by itself, and the whole comes back", async () => {
  answers = () => Response.json(answer([100, 200, 300]));
  await show(attempt({ ended_at: 400 }));
  await until(() => expect(charts.length).toBe(2));
  const picture = charts[0];
  await act(async () =>
    picture?.options.hooks.setSelect[0]?.({ select: { left: 10, width: 50 }, posToVal: (left: number) => 100 + left, setSelect: () => undefined }),
  );
  await until(() => expect(asked.at(-1)?.search).toContain("since=110&until=160"));
  await until(() => expect(button("Whole time").disabled).toBe(false));
  await press(button("Whole time"));
  expect(button("Whole time").disabled).toBe(true);
});

test("one GPU is hidden and shown in all charts, and the cursor reads values", async () => {
  answers = () => Response.json(answer([100, 101, 102]));
  await show(attempt({ ended_at: 110 }));
  await until(() => expect(charts.length).toBe(2));
  await press(button("GPU 1: A100 · GPU-99999999"));
  expect(charts[1]?.series.map((one) => one.show)).toEqual([true, true, true, false, false]);
  await act(async () => document.querySelector(".plot")?.dispatchEvent(new MouseEvent("mousemove", { bubbles: true })));
  await act(async () => charts[0]?.options.hooks.setCursor[0]?.({ cursor: { idx: 1 }, data: [[100, 101, 102]] }));
  expect(document.querySelector<HTMLInputElement>("input[type=range]")?.value).toBe("1");
  expect(document.querySelector(".plot-values")?.textContent).toContain("1.5");
});

test("an empty, a damaged, a simulated and a refused answer are told in words", async () => {
  answers = () => Response.json(answer([], { gpus: [], sentence: "Nothing was measured of it." }));
  await show(attempt({ ended_at: 110, gpus_simulated: true }));
  await until(() => expect(text()).toContain("Nothing was measured of it."));
  expect(text()).toContain("only simulated");
  await drawing?.close();
  answers = () => Response.json(answer([100], { sentence: "About 3 records are broken or cut, and left out." }));
  await show(attempt({ ended_at: 110 }));
  await until(() => expect(text()).toContain("About 3 records are broken"));
  expect(charts.length).toBe(2);
  await drawing?.close();
  answers = () => Response.json({ title: "Forbidden", detail: "This job belongs to ada.", slug: "forbidden" }, { status: 403 });
  await show(attempt({ ended_at: 110 }));
  await until(() => expect(document.querySelector("[role=alert]")?.textContent).toContain("belongs to ada"));
  await drawing?.close();
  asked = [];
  await show(attempt({ started_at: null }));
  expect(text()).toContain("once its program runs");
  expect(asked).toEqual([]);
});

test("asked against used, and what to ask for next time", async () => {
  const rows = [{ resource: "memory", unit: "bytes", asked: 2 ** 32, used: 2 ** 30, share: 0.25, sentence: "At most 1 GiB of 4 GiB were in use." }];
  const suggested = { timeout_s: null, cpus: null, memory_bytes: 1536 * 2 ** 20, gpus: null, gpu_memory_bytes: null };
  answers = () => Response.json(answer([100], { efficiency: { final: true, rows, suggested, sentences: ["1536 MiB of memory are enough."] } }));
  await show(attempt({ ended_at: 110 }));
  await until(() => expect(text()).toContain("1536 MiB of memory are enough."));
  expect([...document.querySelectorAll(".efficiency tbody td")].map((cell) => cell.textContent?.trim())).toEqual(["Memory, at most", "4.0 GiB", "1.0 GiB", "25 %"]);
});
