import { describe, expect, it } from "vitest";

import { LineTimes, exact } from "./logtimes";

describe("times of lines", () => {
  const middle = LineTimes.none.with(100, { offsets: [100, 150, 180], at: [1, null, 2], end: 200 });

  it("are those of the piece that a byte is in; nothing is guessed", () => {
    expect([99, 100, 149, 150, 179, 180, 199, 200].map((byte) => middle.of(byte))).toEqual([null, 1, 1, null, null, 2, 2, null]);
  });

  it("are asked for where a window has none yet", () => {
    expect(LineTimes.none.missing(0, 0)).toBeNull();
    expect(LineTimes.none.missing(5, 9)).toEqual({ from: 5, to: 9 });
    expect(middle.missing(120, 200)).toBeNull();
    expect(middle.missing(50, 300)).toEqual({ from: 50, to: 100 });
    expect(middle.missing(150, 300)).toEqual({ from: 200, to: 300 });
    expect(middle.missing(900, 950)).toEqual({ from: 900, to: 950 });
    expect(middle.missing(0, 50)).toEqual({ from: 0, to: 50 });
  });

  it("join at both ends, and begin anew elsewhere", () => {
    const more = middle.with(200, { offsets: [200], at: [3], end: 210 }).with(50, { offsets: [50], at: [0.5], end: 100 });
    expect([more.from, more.to]).toEqual([50, 210]);
    expect([50, 99, 100, 205].map((byte) => more.of(byte))).toEqual([0.5, 0.5, 1, 3]);
    expect(middle.with(200, { offsets: [], at: [], end: 200 })).toBe(middle);
    const far = more.with(900, { offsets: [900], at: [9], end: 950 });
    expect([far.from, far.to, far.of(100)]).toEqual([900, 950, null]);
    const part = { offsets: Array.from({ length: 10_000 }, (_, i) => i), at: Array.from({ length: 10_000 }, () => 1), end: 10_000 };
    let all = LineTimes.none;
    for (let i = 0; i < 20; i++) all = all.with(i * 10_000, { ...part, offsets: part.offsets.map((o) => o + i * 10_000), end: (i + 1) * 10_000 });
    expect(all.to - all.from).toBeLessThanOrEqual(40_000);
  });

  it("are shown to the millisecond with their zone", () => {
    const at = new Date(2026, 10, 9, 8, 7, 6, 5);
    expect(exact(at.getTime() / 1000)).toMatch(/^2026-11-09 08:07:06\.005[+-]\d\d:\d\d$/);
    const shown = exact(1_793_000_000.123);
    expect(Date.parse(shown.replace(" ", "T"))).toBe(1_793_000_000_123);
  });
});
