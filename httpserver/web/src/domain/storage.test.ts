// What the pages of images, files and datasets decide without a server.
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import { blankTask, emptyTask } from "./form";
import { badImageName, badTag, nameFrom, short } from "./image-name";
import { badName, crumbs, decodePath, encodePath, isText, join, parent, visible } from "./paths";
import { Rate, remaining } from "./rate";
import { chosen, inside, manifestOf } from "./snapshot";
import { tarOf } from "./tar";
import { textOf } from "./write-form";

describe("names of images", () => {
  it.each([
    ["torch.tar", "torch"],
    ["My Torch (2).tar.gz", "my-torch-2"],
    ["cuda12.4.oci.tar.zst", "cuda12-4"],
    ["___.tgz", ""],
    [`${"a".repeat(80)}.tar`, "a".repeat(64)],
  ])("%s suggests %s", (file, want) => {
    expect(nameFrom(file)).toBe(want);
  });

  it.each([
    ["torch", true],
    ["torch-2.4_x", true],
    ["Torch", false],
    ["a--b", false],
    ["-a", false],
    ["a".repeat(65), false],
    ["", false],
  ])("%s is a name: %s", (name, fine) => expect(badImageName(name) === "").toBe(fine));

  it.each([
    ["2.4", true],
    ["_x", true],
    [".x", false],
    ["a:b", false],
    ["", false],
  ])("%s is a tag: %s", (tag, fine) => expect(badTag(tag) === "").toBe(fine));

  it("shortens digests and nothing else", () => {
    expect(short(`sha256:${"0123456789abcdef".repeat(4)}`)).toBe("sha256:0123456789ab…");
    expect(short("mnist")).toBe("mnist");
  });
});

describe("paths", () => {
  it("keeps every name exact", () => {
    expect(encodePath("a b/ü%2F#?.txt")).toBe("a%20b/%C3%BC%252F%23%3F.txt");
    expect(decodePath("a%20b/%C3%BC%252F")).toBe("a b/ü%2F");
    expect(decodePath("a%20%FF%20b/%zz%C3%BC")).toBe("a \\xff b/%zzü");
    expect([isText("a%20b"), isText("%FF")]).toEqual([true, false]);
    expect([join("", "a"), join("a", "b"), parent("a/b/c"), parent("a")]).toEqual(["a", "a/b", "a/b", ""]);
    expect(crumbs("a%20b/c")).toEqual([
      { name: "a b", path: "a%20b" },
      { name: "c", path: "a%20b/c" },
    ]);
  });

  it("shows what would hide", () => {
    expect(visible("a\nb")).toBe("a\\u{a}b");
    expect(visible("photo\u202egpj.exe")).toBe("photo\\u{202e}gpj.exe");
    expect(visible("日本語 🎉 ü")).toBe("日本語 🎉 ü");
    expect(visible("a\u2066b\u061c\u00ad\u{e0041}")).toBe("a\\u{2066}b\\u{61c}\\u{ad}\\u{e0041}");
  });

  it("leaves joiners where scripts and emoji need them", () => {
    for (const name of ["می\u200cخواهم.txt", "क्\u200dष", "👩\u200d💻.png"]) expect(visible(name)).toBe(name);
    expect(visible("pass\u200cword\u200d")).toBe("pass\\u{200c}word\\u{200d}");
  });

  it.each(["", ".", "..", "a/b", "a\0b", "ü".repeat(128)])("refuses %j as a name", (name) => expect(badName(name)).not.toBe(""));
  it("takes any other", () => expect(badName(" -ü🎉 ")).toBe(""));
});

describe("the rate", () => {
  it("is that of the last seconds, and starts again when it goes back", () => {
    const rate = new Rate();
    expect(rate.perSecond).toBeNull();
    for (let s = 0; s <= 10; s++) rate.note(s < 5 ? s * 1000 : 5000 + (s - 5) * 100, s);
    expect(rate.perSecond).toBe(100);
    rate.note(10, 11);
    expect(rate.perSecond).toBeNull();
    expect(remaining(50, 100, 10)).toBe(5);
    expect(remaining(50, 100, null)).toBeNull();
  });
});

const file = (path: string, text: string): File => {
  const made = new File([text], path.split("/").at(-1) ?? "");
  Object.defineProperty(made, "webkitRelativePath", { value: path });
  // jsdom has none of these
  made.text = () => Promise.resolve(text);
  made.arrayBuffer = () => Promise.resolve(new TextEncoder().encode(text).buffer as ArrayBuffer);
  return made;
};

describe("a snapshot of code", () => {
  it("leaves out what .gitignore files say, each below its own folder", async () => {
    const folder = inside([
      file("proj/train.py", "#!/usr/bin/env python3\n"),
      file("proj/.gitignore", "*.log\ndata/\n!keep.log\n"),
      file("proj/a.log", "x"),
      file("proj/keep.log", "x"),
      file("proj/data/big.bin", "x"),
      file("proj/.git/config", "x"),
      file("proj/sub/.gitignore", "/only-here\n"),
      file("proj/sub/only-here", "x"),
      file("proj/only-here", "x"),
      file("proj/sub/__pycache__/m.pyc", "x"),
    ]);
    expect(folder.name).toBe("proj");
    const files = await chosen(folder.files);
    expect(files.map((f) => f.path)).toEqual([".gitignore", "keep.log", "only-here", "sub/.gitignore", "train.py"]);
    const manifest = await manifestOf(files);
    expect(manifest.at(-1)).toEqual({
      path: "train.py",
      sha256: "d682cbdb4c8b07518bf486c58990fc391783aa20a916bfb27ad211eb1d5c3642",
      size_bytes: 23,
      executable: true,
    });
  });

  it("is refused in a sentence when it is too large or empty", async () => {
    const one = inside([file("p/a", "abc")]).files;
    await expect(manifestOf(one, undefined, { files: 10, bytes: 2 })).rejects.toThrow(/headway submit --code/);
    await expect(manifestOf([])).rejects.toThrow(/no files/);
  });
});

describe("tar", () => {
  it("is what tar reads", async () => {
    const blob = tarOf([
      { name: "a".repeat(64), blob: new Blob(["hello"]) },
      { name: "empty", blob: new Blob([]) },
    ]);
    expect(blob.size).toBe(512 + 512 + 512 + 1024);
    const text = await new Promise<string>((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result as string);
      reader.readAsBinaryString(blob);
    });
    expect(text.slice(0, 64)).toBe("a".repeat(64));
    expect(text.slice(124, 135)).toBe("00000000005");
    expect(text.slice(257, 265)).toBe("ustar\x0000");
    const sum = [...text.slice(0, 512)].reduce((total, c, i) => total + (i >= 148 && i < 156 ? 32 : c.charCodeAt(0)), 0);
    expect(Number.parseInt(text.slice(148, 154), 8)).toBe(sum);
    expect(text.slice(512, 517)).toBe("hello");
    expect(text.slice(1024, 1029)).toBe("empty");
  });
});

describe("the form", () => {
  it("says datasets and code in the job file", () => {
    const task = { ...emptyTask("1", "a", "img"), datasets: ["mnist", "cifar@2"] };
    const digest = `sha256:${"0".repeat(64)}`;
    const defaults = { ...blankTask("defaults"), code: digest };
    const file = parse(textOf({ name: "d", priority: "normal", loose: [], fixed: [], defaults, tasks: [task] })) as { [key: string]: unknown };
    expect(file["defaults"]).toEqual({ code: digest });
    expect((file["tasks"] as { datasets: string[] }[])[0]?.datasets).toEqual(["mnist", "cifar@2"]);
  });
});
