import { describe, expect, it } from "vitest";
import { processText } from "./outside";

describe("a process on a GPU without Headway", () => {
  it("is told with what is known of it", () => {
    const process = { pid: 4711, owner: "ann", command: "python train.py", memory_used_bytes: 300 * 2 ** 20 };
    expect(processText(process)).toBe("without Headway: python train.py of ann, 300 MiB (process 4711)");
    expect(processText({ pid: 5, owner: "", command: "", memory_used_bytes: null })).toBe("without Headway: process 5");
  });
});
