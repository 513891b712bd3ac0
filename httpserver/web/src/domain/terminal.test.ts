import { describe, expect, it } from "vitest";

import { GROUND, PLAIN, colours, contrast, settled, styled } from "./terminal";

const shown = (raw: string): string[] => (settled(raw).runs ?? []).map((run) => `${run.style.fg}${run.style.bold ? "!" : ""}:${run.text}`);

describe("a line as a terminal shows it", () => {
  it("has colours as runs of plain text", () => {
    expect(shown("\u001b[31mred\u001b[0m and \u001b[1;38;2;1;2;3mthis\u001b[m")).toEqual(["#ff8a80:red", ": and ", "#010203!:this"]);
    expect(settled("\u001b[32mok\u001b[0m").text).toBe("ok");
    expect(settled("plain").runs).toBeNull();
  });

  it("carries a colour over to the next line", () => {
    const first = settled("\u001b[33mwarn");
    expect(settled("still", first.style).runs).toEqual([{ text: "still", style: { ...PLAIN, fg: "#f0c060" } }]);
  });

  it("overwrites with its colours, and erases", () => {
    expect(shown("\u001b[31m 50 %\u001b[0m\r100 %")).toEqual([]);
    expect(settled("long progress\r\u001b[Kdone").text).toBe("done");
    expect(settled("abc\u001b[2Gx").text).toBe("axc");
  });

  it("lets nothing through that is not shown", () => {
    expect(settled("\u001b]0;title\u0007a\u001b]8;;http://evil\u001b\\b\u001bPq~\u001b\\c").text).toBe("abc");
    expect(settled("\u001b[999999999Cx").text.length).toBeLessThan(3_000);
    expect(settled("a\u202eb\u2066c\u2028d\u0085e\u0000").text).toBe("a\ufffdb\ufffdc\ufffdd\ufffde\ufffd");
    expect(settled("\u001b[31m<img src=x onerror=alert(1)>").runs?.[0]?.text).toBe("<img src=x onerror=alert(1)>");
    expect(settled("\u001b").text).toBe("");
    expect(settled("\u001b[").text).toBe("");
  });

  it("takes colours of nonsense for none", () => {
    for (const broken of ["38", "38;5", "38;5;999", "48;2;1", ";;;", "1000", "38;2;-1;x;300"]) {
      const { fg, bg } = styled(PLAIN, broken);
      for (const colour of [fg, bg]) expect(colour).toMatch(/^(#[0-9a-f]{6})?$/);
    }
  });

  it("can be read, whatever was asked for", () => {
    for (const code of [...Array(8).keys()].flatMap((n) => [`3${n}`, `9${n}`, `4${n}`, `10${n}`, `7;3${n}`, `3${n};4${n}`, `38;5;${n * 30}`])) {
      const { color, background } = colours(styled(PLAIN, code));
      expect(contrast(color, background), code).toBeGreaterThan(4.49);
    }
    expect(colours(styled(PLAIN, "30")).background).toBe(GROUND);
  });
});
