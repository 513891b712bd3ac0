import { expect, it } from "vitest";

import { distance, nearest } from "./nearest";

it.each([
  ["train", "train", 0],
  ["trian", "train", 2],
  ["", "abc", 3],
  ["train-1", "train-12", 1],
])("%s and %s are %i apart", (a, b, want) => expect(distance(a, b)).toBe(want));

it("the nearest names come first, whatever their letters' size", () => {
  expect(nearest("Trian", ["prepare", "report", "train", "trail"], 2)).toEqual(["train", "trail"]);
  expect(nearest("constructor", ["a", "b"])).toEqual(["a", "b"]);
  expect(nearest("x".repeat(10_000), ["y"])).toEqual(["y"]);
});
