import { describe, expect, it } from "vitest";

import { quotaBytes, quotaText } from "./quota";

describe("a quota", () => {
  it.each([
    ["50GiB", 50 * 2 ** 30],
    [" 1.5 TB ", 1.5e12],
    ["1B", 1],
    ["1024TiB", 2 ** 50],
    ["0.5KiB", 512],
  ])("of %s is %d bytes", (text, bytes) => expect(quotaBytes(text)).toBe(bytes));

  it.each(["", "0", "0B", "-1", "-1GiB", "1 TB of", "1" + "0".repeat(30), "1025TiB", "999999999999999TiB", "5G", "5gib", "٥GiB", "1e3GiB", "NaNB", "50GiB<b>", "constructor"])(
    "that is none says why: %j",
    (text) => expect(quotaBytes(text)).toMatch(/^(Write|That)/),
  );

  it.each([1, 512, 1000, 1024, 8e9, 50 * 2 ** 30, 2 ** 50, 1234567])("of %d bytes is written so that it is read back", (bytes) =>
    expect(quotaBytes(quotaText(bytes))).toBe(bytes),
  );

  it("is written as short as it can be", () => {
    expect([50 * 2 ** 30, 8e9, 1234].map(quotaText)).toEqual(["50GiB", "8GB", "1234B"]);
  });
});
