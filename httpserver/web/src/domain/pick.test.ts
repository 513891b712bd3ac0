// What the form for jobs and the page of an account decide without a server.
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";

import { datasetOptions, grouped, imageOptions, matching } from "./options";
import { badHost, hostOf } from "./registry-host";
import { sha256 } from "./sha256";

const tag = (name: string, frameworks: { [name: string]: string } = {}) => ({ tag: name, size_bytes: 1 << 20, cuda_version: "", frameworks });
const image = (full_name: string, more: object = {}) => ({
  owner: full_name.split("/")[0] ?? "",
  full_name,
  public: false,
  description: "",
  tags: [tag("1")],
  ...more,
});

describe("suggested images", () => {
  const images = [
    image("base/python", { public: true }),
    image("bea/vit", { description: "Vision *transformer*" }),
    image("dan/llm", { public: true }),
    image("ann/torch", { tags: [tag("2", { torch: "2.5.1" }), tag("")] }),
  ];
  const nodes = [
    { id: "n1", images: ["python:3.12", "base/python:1"] },
    { id: "n2", images: ["python:3.12", "alpine:3"] },
  ];
  const options = imageOptions(images, nodes, "ann");

  it("come by whose they are, each once, those of machines last", () => {
    expect(grouped(options).map((g) => [g.name, g.options.map((o) => o.value)])).toEqual([
      ["Your images", ["ann/torch:2"]],
      ["Shared with you", ["bea/vit:1"]],
      ["Base images", ["base/python:1"]],
      ["Public images", ["dan/llm:1"]],
      ["On the machines", ["alpine:3", "python:3.12"]],
    ]);
    expect(options.filter((o) => o.group === "On the machines").map((o) => o.note)).toEqual(["on n2", "on 2 machines"]);
  });

  it.each([
    ["", 6],
    ["PYTHON", 2],
    ["transformer vit", 1],
    ["torch 2.5", 1],
    ["torch:2", 1],
    ["nothing", 0],
  ])("%j finds %i", (typed, count) => expect(matching(options, typed)).toHaveLength(count));
});

describe("suggested datasets", () => {
  it("are names, which mean the newest version, and ready versions, one's own first", () => {
    const version = (v: string, state = "ready") => ({ version: v, state, files: 2, size_bytes: 10 });
    const options = datasetOptions(
      [
        { name: "by-hand", owner: "", public: true, description: "", versions: [version("1")] },
        { name: "digits", owner: "ann", public: false, description: "", versions: [version("1"), version("2"), version("3", "publishing")] },
        { name: "failed", owner: "ann", public: false, description: "", versions: [version("1", "failed")] },
      ],
      "ann",
    );
    expect(options.map((o) => o.value)).toEqual(["digits", "digits@2", "digits@1", "by-hand", "by-hand@1"]);
    expect(options[0]?.note).toBe("newest version, now 2; 2 files, 10 B");
  });
});

describe("hosts of registries", () => {
  it.each([
    [" https://ghcr.io/ ", "ghcr.io", true],
    ["registry.lab:5000", "registry.lab:5000", true],
    ["ghcr.io/lab/torch", "ghcr.io/lab/torch", false],
    ["", "", false],
    ["a b", "a b", false],
  ])("%j is %j", (typed, host, fine) => {
    expect(hostOf(typed)).toBe(host);
    expect(badHost(host) === "").toBe(fine);
  });
});

describe("SHA-256", () => {
  it.each([0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 1000, 1 << 20])("of %i bytes is what others say", (length) => {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) & 255);
    expect(Buffer.from(sha256(bytes.buffer)).toString("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
  });
});
