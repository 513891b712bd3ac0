import { describe, expect, it } from "vitest";

import { seconds } from "./duration";
import { emptyTask } from "./form";
import { promises, termsInWords } from "./scheduling";
import { away, clock, ordinal } from "./starts";
import { splitTasks } from "./tasks";
import { comparison, ownStart } from "./variants";
import { zone } from "./zone";

describe("durations", () => {
  it.each([
    ["90s", 90],
    ["1h30m", 5400],
    ["1.5h", 5400],
    ["01:30:00", 5400],
    ["1d", 86400],
    ["10", null],
    ["", null],
    ["0s", null],
    ["30m1h", null],
    ["soon", null],
    ["-5m", null],
    [" 5m", null],
  ])("%s is %s s", (text, want) => expect(seconds(text)).toBe(want));
});

describe("starts", () => {
  const now = new Date(2026, 5, 1, 12, 0, 20).getTime() / 1000;
  const time = (date: Date, second: boolean): string =>
    `${date
      .toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(second ? { second: "2-digit" } : {}) })
      .replace(/\s/g, "\u00a0")} ${zone(date)}`;

  it("a promise is never told earlier than it is", () => {
    expect(clock(now + 600, now)).toBe(time(new Date(2026, 5, 1, 12, 10), false));
    expect(clock(now + 601, now, { up: true })).toBe(time(new Date(2026, 5, 1, 12, 11), false));
  });

  it("says seconds where it is near, and the day where it is another", () => {
    expect(clock(now + 5, now)).toBe(time(new Date(2026, 5, 1, 12, 0, 25), true));
    expect(clock(now + 86400, now)).toMatch(/^tomorrow /);
    expect(clock(now + 3 * 86400, now)).toContain("4");
    expect(clock(now + 86400, now)).toMatch(/^tomorrow [^ ]+ UTC[^ ]*$/); // the time in one piece
  });

  it.each([
    [-5, "any moment"],
    [40, "in 40 s"],
    [725, "in 12 m"],
    [7500, "in 2 h 5 m"],
  ])("%s s off is %s", (off, want) => expect(away(now + off, now)).toBe(want));

  it.each([
    [1, "1st"],
    [2, "2nd"],
    [3, "3rd"],
    [11, "11th"],
    [112, "112th"],
    [23, "23rd"],
  ])("%s is %s", (n, want) => expect(ordinal(n)).toBe(want));
});

describe("what orders the queue", () => {
  it("the terms of aging_sjf are counted from now", () => {
    const now = 1_780_000_000;
    const terms = { priority: 0, alpha_p: 0, waited_s: 120, beta_t: -600, gamma_t: -(now - 120) };
    expect(termsInWords(terms, now)).toEqual([
      { name: "priority", value: "normal" },
      { name: "score for waiting", value: "+2 m" },
      { name: "score for its timeout", value: "−10 m" },
      { name: "total score (the highest starts first)", value: "−8 m" },
    ]);
  });

  it("of a rule that nobody here knows its own words are told", () => {
    expect(termsInWords({ priority: 1, my_term: 0.125 }, 0)).toEqual([
      { name: "priority", value: "high" },
      { name: "my term", value: "0.125" },
    ]);
  });

  it("knows under which rules starts are promised", () => {
    expect(promises("aging_sjf:beta=2", "conservative")).toBe(true);
    expect(promises("aging_sjf", "greedy")).toBe(false);
    expect(promises("fair:spread=4", "easy")).toBe(false);
    expect(promises("fair:spread=4", "conservative", "late")).toBe(true);
    expect(promises("fair:spread=4", "easy", "late")).toBe(false);
  });
});

describe("tasks in sentences", () => {
  const job = "j0123456789abcdef".slice(0, 17);
  it("are found with the dot left to the sentence", () => {
    expect(splitTasks(`With 5m more for ${job}/a, 1 task would wait: ${job}/b.2 by 3m. Behind ${job}/c.`)).toEqual([
      "With 5m more for ",
      { job, task: "a" },
      ", 1 task would wait: ",
      { job, task: "b.2" },
      " by 3m. Behind ",
      { job, task: "c" },
      ".",
    ]);
  });
  it("nothing else is one", () => expect(splitTasks(`x${job} ${job}0 just text`)).toEqual([`x${job} ${job}0 just text`]));
});

describe("what a task is compared with", () => {
  it("its own timeout and GPUs stand among the usual ones", () => {
    const task = { ...emptyTask("1", "a", "img"), timeout: "60m", gpus: "4" };
    const { timeouts, gpus, asked } = comparison(task, "normal") ?? { timeouts: [], gpus: [], asked: [] };
    expect([timeouts, gpus, asked.length]).toEqual([["10m", "60m", "1d"], [1, 2, 4], 9]);
    expect(asked[5]).toEqual({ timeout: "60m", gpus: 4, cpus: 1, memory: "2GiB", priority: "normal" });
  });
  it("all that its start depends on is asked for, and its own cell is found", () => {
    const task = { ...emptyTask("1", "a", "img"), timeout: "10m", gpus: "2", shm: "1GiB", gpu_model: "A100, H100", gpu_memory: "24GiB", cpus: "" };
    const grid = comparison(task, "");
    expect(grid?.asked[0]).toEqual({ timeout: "10m", gpus: 1, memory: "2GiB", shm: "1GiB", gpu_model: ["A100", "H100"], gpu_memory: "24GiB", priority: "normal" });
    const starts = (grid?.asked ?? []).map((_, i) => ({ task: String(i) })) as never;
    expect(grid && ownStart({ ...grid, starts }, task)?.task).toBe("1");
    expect(comparison({ ...task, gpus: "" }, "low")?.asked[0]).toEqual({ timeout: "10m", gpus: 0, memory: "2GiB", shm: "1GiB", priority: "low" });
  });
  it("without a timeout that can be read there is nothing to compare", () => {
    expect(comparison({ ...emptyTask("1", "a"), timeout: "soon" }, "normal")).toBeNull();
  });
});
