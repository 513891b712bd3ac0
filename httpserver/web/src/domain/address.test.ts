import { describe, expect, it } from "vitest";

import { changed, numberIn, textIn, wordIn } from "./address";
import { pressed, sortIn, sortText, sorted } from "./sort";

describe("an address", () => {
  it("says what is known, and nothing else", () => {
    const given = new URLSearchParams("?state=%3Cscript%3E&from=-5&q=" + "x".repeat(9000) + "&sort=-__proto__");
    expect(wordIn(given.get("state"), ["RUNNING", "FAILED"], "RUNNING")).toBe("RUNNING");
    expect(wordIn("FAILED", ["RUNNING", "FAILED"], "RUNNING")).toBe("FAILED");
    expect(numberIn(given.get("from"), 100)).toBe(0);
    expect(textIn(given.get("q"))).toHaveLength(200);
    expect(sortIn(given.get("sort"), ["name"])).toBeNull();
    for (const hostile of ["1e9", "0x10", " 7", "NaN", "99999999999999999999", "١"]) expect(numberIn(hostile, 100)).toBe(0);
    expect([numberIn("300", 1000), numberIn("300", 100), numberIn(null, 100)]).toEqual([300, 100, 0]);
  });

  it("changes in what is chosen alone", () => {
    expect(changed("?log=stderr&q=old", { q: "a&b=ü #", state: "FAILED" })).toBe("?log=stderr&q=a%26b%3D%C3%BC+%23&state=FAILED");
    expect(new URLSearchParams(changed("", { q: "a&b=ü #" })).get("q")).toBe("a&b=ü #");
    expect(changed("?q=old", { q: "" })).toBe("");
    expect(changed("?q=old", { q: null, other: null })).toBe("");
  });
});

describe("rows by a column", () => {
  const rows = [{ n: "b10", s: 1 }, { n: "b9", s: null }, { n: "a", s: 3 }, { n: "", s: 2 }];
  const names = (sort: string): string[] => sorted(rows, sortIn(sort, ["n", "s"]), { n: (r) => r.n, s: (r) => r.s }).map((r) => r.n);

  it("stand in its order, what has none last", () => {
    expect(names("n")).toEqual(["a", "b9", "b10", ""]);
    expect(names("-n")).toEqual(["b10", "b9", "a", ""]);
    expect(names("s")).toEqual(["b10", "", "a", "b9"]);
    expect(names("-s")).toEqual(["a", "", "b10", "b9"]);
    expect(names("other")).toEqual(rows.map((r) => r.n));
  });

  it("a press goes one way, the other, and back", () => {
    const one = pressed(null, "size", true);
    const two = pressed(one, "size", true);
    expect([one, two, pressed(two, "size", true)].map(sortText)).toEqual(["-size", "size", null]);
    expect(sortText(pressed(two, "name", false))).toBe("name");
  });
});
