import { describe, expect, it } from "vitest";

import { chosenIn, firstStream, sizesOf, taskAddress } from "./streams";

const attempt = (state: string, ended = true) => ({ state, ended_at: ended ? 1 : null }) as never;
const sizes = (stdout: number | null, stderr: number | null, platform: number | null = null) => sizesOf({ stdout, stderr, platform });

describe("the log that is shown first", () => {
  it("is the one that holds the end of what failed", () => {
    expect(firstStream(attempt("FAILED"), sizes(0, 900))).toBe("stderr");
    expect(firstStream(attempt("FAILED"), sizes(5000, 900))).toBe("stderr");
    expect(firstStream(attempt("FAILED"), sizes(5000, 0))).toBe("both");
    expect(firstStream(attempt("FAILED"), sizes(0, 0, 80))).toBe("platform");
  });
  it("is what the program prints, of all else", () => {
    expect(firstStream(attempt("SUCCEEDED"), sizes(10, 900))).toBe("both");
    expect(firstStream(attempt("FAILED"), sizes(null, null))).toBe("both");
    expect(firstStream(attempt("RUNNING", false), sizes(null, null))).toBe("both");
    expect(firstStream(undefined, sizes(null, null))).toBe("both");
  });
});

describe("the address of a log", () => {
  it("has what was chosen and nothing else", () => {
    expect(taskAddress("j1", "a b", { stream: null })).toBe("/jobs/j1/a%20b");
    expect(taskAddress("j1", "a", { stream: "stderr", attempt: 2 })).toBe("/jobs/j1/a?log=stderr&attempt=2");
    expect(chosenIn("log=stderr&attempt=2")).toEqual({ stream: "stderr", attempt: 2 });
    expect(chosenIn("log=../x&attempt=-1")).toEqual({ stream: null, attempt: null });
  });
});
