import { describe, expect, it, vi } from "vitest";

import { MOST_BYTES, openedFile, textIn } from "./open-file";

const bytesOf = (...parts: (string | readonly number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...new TextEncoder().encode(part)] : part)));

const file = (size: number, arrayBuffer: () => Promise<ArrayBuffer>): File => ({ name: "job.yaml", size, arrayBuffer }) as unknown as File;

describe("a file that is opened", () => {
  it.each(["", "name: x\r\n", "# ü 日本 🎉 \u07ff\u0800\uffff\u{10000}\u{10ffff}\n"])("is read to the letter: %j", (text) => {
    expect(textIn(bytesOf(text))).toEqual({ text });
    expect(textIn(bytesOf([0xef, 0xbb, 0xbf], text))).toEqual({ text });
  });

  it.each<[string, (string | readonly number[])[], string]>([
    ["Latin-1", ["name: x\n# ü ", [0xe9], " y\n"], "line 2, column 5: the byte 0xE9 is not UTF-8. Save the file as UTF-8."],
    ["after signs of two code units", ["🎉", [0xff]], "line 1, column 2: the byte 0xFF is not UTF-8. Save the file as UTF-8."],
    ["after a byte-order mark", [[0xef, 0xbb, 0xbf], "ab", [0x80]], "line 1, column 3: the byte 0x80 is not UTF-8. Save the file as UTF-8."],
    ["a picture", [[0x89, 0x50, 0x4e, 0x47, 0]], "line 1, column 1: the byte 0x89 is not UTF-8. Save the file as UTF-8."],
    ["cut off", ["a", [0xe2, 0x82]], "line 1, column 2: the byte 0xE2 is not UTF-8. Save the file as UTF-8."],
    ["longer than needed", [[0xc0, 0xaf]], "line 1, column 1: the byte 0xC0 is not UTF-8. Save the file as UTF-8."],
    ["half a pair", [[0xed, 0xa0, 0x80]], "line 1, column 1: the byte 0xED is not UTF-8. Save the file as UTF-8."],
    ["beyond the last character", [[0xf4, 0x90, 0x80, 0x80]], "line 1, column 1: the byte 0xF4 is not UTF-8. Save the file as UTF-8."],
    ["UTF-16 with a mark", [[0xff, 0xfe, 0x6e, 0]], "the file is UTF-16 or UTF-32. Save it as UTF-8."],
    ["UTF-16 of the other order", [[0xfe, 0xff, 0, 0x6e]], "the file is UTF-16 or UTF-32. Save it as UTF-8."],
    ["UTF-32", [[0, 0, 0xfe, 0xff]], "the file is UTF-16 or UTF-32. Save it as UTF-8."],
    ["UTF-16 without a mark", ["n", [0], "a", [0]], "line 1, column 2: the byte 0x00 is in no text. Save the file as UTF-8."],
  ])("is refused with the place: %s", (_, parts, why) => {
    expect(textIn(bytesOf(...parts))).toEqual({ why });
  });

  it("is refused by its size before it is read, and told where it can't be read", async () => {
    const read = vi.fn(() => Promise.resolve(bytesOf("a: 1\n").buffer as ArrayBuffer));
    expect(await openedFile(file(MOST_BYTES + 1024 * 1024, read))).toEqual({ why: "job.yaml was not opened: it has 9.0 MiB, and a job file has up to 8 MiB. Split the job." });
    expect(read).not.toHaveBeenCalled();
    expect(await openedFile(file(MOST_BYTES, read))).toEqual({ text: "a: 1\n" });
    expect(await openedFile(file(5, () => Promise.reject(new Error("gone"))))).toEqual({ why: expect.stringContaining("can't read it") as string });
  });
});
