import { beforeEach, describe, expect, it, vi } from "vitest";
import { parse } from "yaml";

import { type Draft, asideOf, draftOf, fileOf, forgetDraft, loadDraft, newDraft, replacing, saveDraft, takenBack, untouched, withTaken, withoutAside } from "./draft";
import { forgetTaken, takeIntoDraft, taken } from "./take";

const [OLD, OLDER, NEW] = ["headway.draft.3.ann", "headway.draft.2.ann", "headway.draft.4.ann"];

/** A draft as pages wrote it that kept a form and a text side by side; the first of them said `workingDir`. */
function writeOld(slot: string, part: { [key: string]: unknown } = {}): void {
  const folder = slot === OLDER ? { workingDir: "/root/nfs/run 1" } : { working_dir: "/root/nfs/run 1" };
  const task = {
    key: "k", name: "task-1", image: "base/python:1", mode: "script", command: "echo hi", timeout: "3h", retries: "0", cpus: "1",
    memory: "2GiB", gpus: "0", network: "outgoing", env: [{ name: "A", value: "no" }], needs: [], datasets: ["mnist"], ...folder,
  };
  const form = { name: "long work", priority: "normal", code: null, tasks: [task] };
  sessionStorage.setItem(slot, JSON.stringify({ tab: "form", form, yaml: "", requestId: "r1", ...part }));
}

beforeEach(() => sessionStorage.clear());

const typed = (draft: Draft): Draft => ({ ...draft, form: draft.form && { ...draft.form, name: "typed" } });

describe("a draft", () => {
  it("is one file, whichever way it is seen", () => {
    const draft = newDraft();
    expect([untouched(draft), untouched(typed(draft))]).toEqual([true, false]);
    expect(fileOf(typed(draft))).toBe(draft.text.replace("my job", "typed"));
    saveDraft("ann", typed(draft));
    expect(loadDraft("ann")).toEqual({ draft: typed(draft), told: "", blocked: false });
    expect(draftOf("a: [").form).toBeNull();
  });

  it("of an older page is taken over with all that was typed, and what a task has anyway is no word of the file", () => {
    for (const slot of [OLD ?? "", OLDER ?? ""]) {
      sessionStorage.clear();
      writeOld(slot);
      const { draft } = loadDraft("ann");
      expect(draft.requestId).toBe("r1");
      expect(parse(fileOf(draft))).toEqual({
        version: 1, name: "long work", priority: "normal",
        tasks: [{ name: "task-1", image: "base/python:1", command: "echo hi", env: { A: "no" }, working_dir: "/root/nfs/run 1", datasets: ["mnist"], resources: { cpus: 1, memory: "2GiB", gpus: 0 }, timeout: "3h" }],
      });
      expect([sessionStorage.getItem(slot), JSON.parse(sessionStorage.getItem(NEW ?? "") ?? "{}")]).toMatchObject([null, { version: 4 }]);
      expect(loadDraft("ann").draft).toEqual(draft);
      forgetDraft("ann");
      expect(loadDraft("ann").draft.form?.name).toBe("my job");
    }
  });

  it("of an older page that had two: the one in sight is it, the other is put aside", () => {
    writeOld(OLD ?? "", { tab: "yaml", yaml: "name: other # kept\n" });
    expect(loadDraft("ann").draft).toMatchObject({ text: "name: other # kept\n", form: null, aside: expect.stringContaining("long work") as string });
    sessionStorage.clear();
    writeOld(OLD ?? "", { yaml: "name: other\n" });
    expect(loadDraft("ann").draft).toMatchObject({ form: { name: "long work" }, aside: "name: other\n" });
  });

  it("of an older page never replaces what was typed since, and stays where the new place can't be written", () => {
    saveDraft("ann", typed(newDraft()));
    writeOld(OLD ?? "");
    expect(loadDraft("ann").draft.form?.name).toBe("typed");
    sessionStorage.removeItem(NEW ?? "");
    const full = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new DOMException("full", "QuotaExceededError");
    });
    expect(loadDraft("ann").draft.form?.name).toBe("long work");
    full.mockRestore();
    expect(sessionStorage.getItem(OLD ?? "")).not.toBeNull();
  });

  const kept = { version: 4, ...newDraft() };
  it.each([
    ["{"],
    ["null"],
    [JSON.stringify({ ...kept, version: 5 })],
    [JSON.stringify({ ...kept, text: 1 })],
    [JSON.stringify({ ...kept, text: "a: [" })],
    [JSON.stringify({ ...kept, form: { ...kept.form, tasks: [{ key: "1" }] } })],
    [JSON.stringify({ ...kept, form: { ...kept.form, tasks: "__proto__" } })],
    ['{"version": 4, "__proto__": {"text": "x"}}'],
  ])("that can't be read changes nothing, and is told: %.40s", (json) => {
    sessionStorage.setItem(NEW ?? "", json);
    const { draft, told, blocked } = loadDraft("ann");
    expect([draft.form?.name, told, blocked]).toEqual(["my job", expect.stringContaining("can't read"), true]);
    expect(sessionStorage.getItem(NEW ?? "")).toBe(json);
  });

  it.each([[OLD], [OLDER]])("of an older page that can't be read stays in %s, and is told", (slot = "") => {
    for (const json of ["{", "[]", '{"form": {"tasks": 1}}']) {
      sessionStorage.setItem(slot, json);
      expect(loadDraft("ann")).toMatchObject({ draft: { form: { name: "my job" } }, told: expect.stringContaining("can't be read") as string });
      forgetDraft("ann");
      expect(sessionStorage.getItem(slot)).toBe(json);
    }
  });

  it("of a newer page is left alone and told; another account's says nothing", () => {
    sessionStorage.setItem("headway.draft.7.ann", "{}");
    sessionStorage.setItem("headway.draft.9.bea", "{}");
    expect(loadDraft("ann").told).toContain("newer version");
    expect(loadDraft("cid").told).toBe("");
    expect(sessionStorage.getItem("headway.draft.7.ann")).toBe("{}");
  });

  it("that makes room is put aside, and so are those before it, up to five", () => {
    let draft = newDraft();
    for (let i = 1; i <= 4; i++) draft = replacing({ ...typed(draft), text: `name: ${i}\n`, form: null }, `name: opened ${i}\n`);
    expect(asideOf(draft)).toEqual(["name: 4\n", "name: 3\n", "name: 2\n", "name: 1\n"]);
    expect(asideOf(replacing(draft, "name: z\n"))).toEqual(asideOf(draft)); // nothing was written into it
    // One that was taken back has no other copy: it goes aside like any that was written.
    const back = takenBack(draft, 1);
    expect([back.text, asideOf(back)]).toEqual(["name: 3\n", ["name: opened 4\n", "name: 4\n", "name: 2\n", "name: 1\n"]]);
    expect(asideOf(replacing(back, "name: z\n"))).toEqual(["name: 3\n", "name: opened 4\n", "name: 4\n", "name: 2\n", "name: 1\n"]);
    expect(saveDraft("ann", back)).toBe("all");
    expect(loadDraft("ann").draft).toEqual(back);
    expect(asideOf(withoutAside(back, 0))).toEqual(["name: 4\n", "name: 2\n", "name: 1\n"]);
    expect(asideOf(takenBack(withoutAside(withoutAside(withoutAside(back, 0), 0), 0), 0))).toEqual(["name: 3\n"]);
    // Of one of before, nothing but what was put aside is known.
    expect(takenBack({ ...back, cloneOf: "j1" }, 0).cloneOf).toBeUndefined();
  });

  it("that is too large leaves no older one behind, and goes before what was put aside", () => {
    const room = 10_000;
    const set = Storage.prototype.setItem;
    const full = vi.spyOn(Storage.prototype, "setItem").mockImplementation(function (this: Storage, key: string, value: string) {
      if (value.length > room) throw new DOMException("full", "QuotaExceededError");
      set.call(this, key, value);
    });
    const [small, large, whole] = [1000, 6000, 20_000].map((length) => `name: ${"x".repeat(length)}\n`) as [string, string, string];
    expect(saveDraft("ann", draftOf(large, { asText: true }))).toBe("all"); // not a second copy of it as its beginning
    const draft = replacing({ ...draftOf(small, { asText: true, aside: large }), origin: "" }, large.replace("x", "y"));
    expect(saveDraft("ann", draft)).toBe("some");
    expect(asideOf(loadDraft("ann").draft)).toEqual([small]);
    expect(saveDraft("ann", draftOf(whole, { asText: true }))).toBe("none");
    expect(loadDraft("ann").draft.form?.name).toBe("my job");
    full.mockRestore();
  });

  it("takes what was looked at as its first task's, or says why not", () => {
    takeIntoDraft("ann", { image: "team/torch:2", dataset: "mnist" });
    const what = taken("ann");
    expect(withTaken(newDraft(), what).draft.form?.tasks[0]).toMatchObject({ image: "team/torch:2", datasets: ["mnist"] });
    expect(withTaken(draftOf("a: ["), what)).toMatchObject({ draft: { text: "a: [" }, told: expect.stringContaining("team/torch:2") as string });
    forgetTaken("ann");
    expect(taken("ann")).toEqual({});
    sessionStorage.setItem("headway.take.ann", '{"image": 3, "dataset": ["x"]}');
    expect(taken("ann")).toEqual({});
  });
});
