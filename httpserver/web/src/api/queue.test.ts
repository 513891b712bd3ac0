import { describe, expect, it } from "vitest";

import { found, lastOffset } from "../domain/queue";
import type { Queue } from "./client";
import { readQueue } from "./queue";

type Entry = Queue["entries"][number];
const entry = (n: number, more: Partial<Entry> = {}): Entry =>
  ({ job_id: `j${n}`, job_name: `job ${n}`, task: "t", owner: n % 2 ? "anna" : "bea", position: n + 1, ...more }) as Entry;

describe("the whole queue", () => {
  const of = (size: number, asked: number[] = [], moved = 0) => async (limit: number, offset: number): Promise<Queue> => {
    asked.push(offset);
    const from = Math.max(0, offset - moved);
    const entries = Array.from({ length: Math.max(0, Math.min(limit, size - from)) }, (_, i) => entry(from + i));
    return { entries, total_waiting: size } as Queue;
  };

  it.each([
    [0, [0]],
    [999, [0]],
    [1000, [0, 1000]],
    [2500, [0, 1000, 2000]],
    [9000, [0, 1000, 2000]],
  ])("of %s is read in parts, so far as is asked", async (size, want) => {
    const asked: number[] = [];
    const { entries, total_waiting } = await readQueue(of(size, asked), 3000);
    expect(asked).toEqual(want);
    expect(entries).toHaveLength(Math.min(size, 3000));
    expect(total_waiting).toBe(size);
  });

  it("that moves while it is read has nothing twice", async () => {
    const { entries } = await readQueue(of(1500, [], 3), 5000);
    expect(entries).toHaveLength(1500);
    expect(new Set(entries.map((e) => e.job_id)).size).toBe(1500);
  });
});

describe("looking for waiting tasks", () => {
  const entries = [entry(1), entry(2, { job_name: "Über alles", task: "train" }), entry(3, { job_id: "j0abc" })];
  it.each([
    [" ", [1, 2, 3]],
    ["BEA", [2]],
    ["über alles / tr", [2]],
    ["j0abc/t", [3]],
    ["anna / über", []],
  ])("by %o finds %o", (text, want) => expect(found(entries, text).map((e) => e.position - 1)).toEqual(want));

  it.each([
    [0, 0],
    [100, 0],
    [101, 100],
    [504, 500],
  ])("of %s the last page begins at %s", (total, want) => expect(lastOffset(total, 100)).toBe(want));
});
