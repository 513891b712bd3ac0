import { afterEach, expect, it } from "vitest";

import { moment } from "./format";
import { clock, exactly, inFull } from "./starts";
import { zone } from "./zone";

const before = process.env["TZ"];
afterEach(() => {
  if (before === undefined) delete process.env["TZ"];
  else process.env["TZ"] = before;
});

it("the hour that summer time repeats is told apart, in every form", () => {
  process.env["TZ"] = "Europe/Berlin";
  const first = Date.parse("2026-10-25T00:30:00Z") / 1000;
  const second = first + 3600;
  const now = Date.parse("2026-10-24T12:00:00Z") / 1000;
  for (const tell of [moment, clock, exactly, inFull]) {
    expect(new Date(first * 1000).getHours()).toBe(2);
    expect(new Date(second * 1000).getHours()).toBe(2);
    expect(tell(first, now)).not.toBe(tell(second, now));
  }
  expect(clock(first, now)).toMatch(/^tomorrow .*30.* UTC\+2$/);
  expect(clock(second, now)).toMatch(/^tomorrow .*30.* UTC\+1$/);
  // That day has 25 hours: the evening of it is not tomorrow.
  expect(clock(second + 20 * 3600, first)).not.toContain("tomorrow");
  expect(inFull(first)).toContain("2026-10-25T00:30:00.000Z");
});

it.each([
  ["UTC", "UTC"],
  ["Europe/Berlin", "UTC+1"],
  ["Asia/Kolkata", "UTC+5:30"],
  ["America/St_Johns", "UTC−3:30"],
  ["Pacific/Chatham", "UTC+13:45"],
])("the clock of %s is %s", (place, want) => {
  process.env["TZ"] = place;
  expect(zone(new Date("2026-12-01T12:00:00Z"))).toBe(want);
});

it("a moment that no calendar has is no failure", () => {
  expect(() => [moment(1e18), clock(1e18, 0), inFull(1e18)]).not.toThrow();
});
