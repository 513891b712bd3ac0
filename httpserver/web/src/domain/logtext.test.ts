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

  it.each([300, 4_000, 1_000_000])("shows both ends of a line however it comes: in pieces of %i bytes", (size) => {
    const line = bytes(`begin ${"x".repeat(1_000_000)} end`);
    const log = new LogText(0, { maxChars: 10_000, maxLine: 50 });
    for (let at = 0; at < line.byteLength; at += size) {
      log.add(line.subarray(at, at + size));
      if (at > 0) expect(log.view()[0]).toMatch(/^begin x+ … \(\d+ more characters in this line\) … /);
    }
    const whole = /^(begin x+) … \((\d+) more characters in this line\) … (x+ end)$/;
    const [, first = "", more, last = ""] = whole.exec(log.view()[0] ?? "") ?? [];
    expect(first.length + Number(more) + last.length).toBe(line.byteLength);
    log.add(bytes("\nnext\n"));
    expect(log.view()).toEqual([expect.stringMatching(whole), "next"]);
  });

  it("shows the end of a long line whose letters were cut, and what overwrites all of it", () => {
    const log = new LogText(0, { maxChars: 10_000, maxLine: 50 });
    for (let i = 0; i < 100; i++) log.add(bytes(`${"€".repeat(100)}${i % 2 ? "a" : ""}`));
    log.add(bytes("the end"));
    expect(log.view()[0]).toMatch(/^€+ … \(.*\) … €*a?€*the end$/);
    log.add(bytes("\rshort"));
    for (let i = 0; i < 5; i++) log.add(bytes("."));
    expect(log.view()).toEqual(["short....."]);
  });

  it("keeps the last state of a very long progress bar", () => {
    const log = new LogText(0, { maxChars: 10_000, maxLine: 50 });
    for (let i = 0; i < 5000; i++) log.add(bytes(`\rstep ${i}`));
    expect(log.view()).toEqual(["step 4999"]);
  });
});

describe("a window on a log", () => {
  const whole = bytes(Array.from({ length: 3000 }, (_, i) => `line ${i} €${"\t".repeat(i % 3)}\n`).join("") + "no end");
  const texts = new TextDecoder().decode(whole).split("\n");

  it("grows at its top by pieces that are cut anywhere, with each line where it is", () => {
    for (const piece of [1, 7, 997, 100_000]) {
      let begin = Math.max(0, whole.byteLength - 500);
      const log = new LogText(begin);
      log.add(whole.slice(begin));
      for (let n = 0; begin > 0 && n < 600; n++) {
        const from = Math.max(0, begin - piece);
        log.addBefore(whole.slice(from, begin));
        begin = from;
        expect(log.begin).toBe(begin);
      }
      const view = log.view();
      expect(view.slice(1)).toEqual(texts.slice(texts.length - view.length + 1));
      if (begin === 0) expect([view, log.first]).toEqual([texts, 1 - (log.lines()[0]?.index ?? 0)]);
      for (const line of log.lines().slice(1)) expect(whole[line.at - 1]).toBe(10);
    }
  });

  it("gives way at the end that is not read", () => {
    const log = new LogText(0, { maxChars: 5_000, maxLine: 100, maxLines: 100 });
    log.add(whole, "start");
    expect(log.full).toBe(true);
    log.dropBottom();
    expect(log.view()).toEqual(texts.slice(0, log.view().length));
    expect(log.view().length).toBeLessThanOrEqual(100);
    // It goes on where it was cut.
    const upTo = log.view().length;
    log.add(whole.slice(log.offset, log.offset + 2000), "start");
    log.dropTop();
    expect(log.view().slice(0, -1)).toEqual(texts.slice(log.dropped, log.dropped + log.view().length - 1));
    expect(log.dropped + log.view().length).toBeGreaterThan(upTo);
    const top = log.lines()[0];
    expect((log.first ?? 0) + (top?.index ?? 0)).toBe(log.dropped + 1);
    expect(log.begin).toBe(top?.at);
    // And back up again.
    log.addBefore(whole.slice(log.begin - 300, log.begin));
    const view = log.view();
    const last = texts.indexOf(view[3] ?? "");
    expect(view.slice(1, 40)).toEqual(texts.slice(last - 2, last + 37));
  });

  it("bears a line of ten megabytes from either end", () => {
    const piece = bytes("x".repeat(256 * 1024));
    const log = new LogText(10_000_000);
    for (let n = 0; n < 40; n++) log.add(piece);
    for (let n = 0; n < 38; n++) log.addBefore(piece);
    log.add(bytes("\nafter\n"));
    expect(log.view().at(-1)).toBe("after");
    expect(log.view().join("").length).toBeLessThan(400_000);
    expect(log.begin).toBe(10_000_000 - 38 * 256 * 1024);
  });

  it("keeps colours of the line that it is joined with", () => {
    const log = new LogText(8);
    log.add(bytes("d\u001b[0m\nb\n"));
    log.addBefore(bytes("\u001b[31mre"));
    expect(log.lines()[0]?.runs?.[0]).toMatchObject({ text: "red", style: { fg: "#ff8a80" } });
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
