import { describe, expect, it } from "vitest";

import { LogText, settle } from "./logtext";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("LogText", () => {
  it("joins a letter that was cut in two", () => {
    const log = new LogText();
    const euro = bytes("€");
    log.add(euro.slice(0, 1));
    log.add(euro.slice(1));
    expect(log.view()).toEqual(["€"]);
    expect(log.offset).toBe(3);
  });

  it("shows a replacement mark for broken text", () => {
    const log = new LogText();
    log.add(new Uint8Array([0x61, 0xff, 0x62, 0x0a]));
    expect(log.view()).toEqual(["a\ufffdb"]);
  });

  it("shows a progress bar as one moving line", () => {
    const log = new LogText();
    for (let i = 0; i <= 100; i++) log.add(bytes(`${i} %\r`));
    expect(log.view()).toEqual(["100 %"]);
    log.add(bytes("\ndone\n"));
    expect(log.view()).toEqual(["100 %", "done"]);
  });

  it("keeps memory bounded and counts what it left out", () => {
    const log = new LogText(0, { maxChars: 1000, maxLine: 100 });
    for (let i = 0; i < 1000; i++) log.add(bytes(`line ${i}\n`));
    const view = log.view();
    expect(view.join("\n").length).toBeLessThanOrEqual(1000);
    expect(view.at(-1)).toBe("line 999");
    expect(log.dropped + view.length).toBe(1000);
  });

  it("folds a line of megabytes and says so", () => {
    const log = new LogText(0, { maxChars: 10_000, maxLine: 50 });
    for (let i = 0; i < 100; i++) log.add(bytes("x".repeat(1000)));
    log.add(bytes("\nnext\n"));
    const view = log.view();
    expect(view).toHaveLength(2);
    expect(view[0]).toMatch(/more characters in this line/);
    expect(view[1]).toBe("next");
  });

  it("keeps the last state of a very long progress bar", () => {
    const log = new LogText(0, { maxChars: 10_000, maxLine: 50 });
    for (let i = 0; i < 5000; i++) log.add(bytes(`\rstep ${i}`));
    expect(log.view()).toEqual(["step 4999"]);
  });
});

describe("settle", () => {
  it("drops colours and shows other control characters as marks", () => {
    expect(settle("\u001b[31mred\u001b[0m \u0007")).toBe("red \ufffd");
  });
  it("lets markup through as text", () => {
    expect(settle("<svg onload=alert(1)>")).toBe("<svg onload=alert(1)>");
  });
});
