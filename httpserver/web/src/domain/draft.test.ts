import { beforeEach, describe, expect, it, vi } from "vitest";

import { forgetDraft, loadDraft, newDraft, saveDraft } from "./draft";

const OLD = "headway.draft.2.ann";
const NEW = "headway.draft.3.ann";

/** A draft as pages wrote it that called the working folder `workingDir`. */
function writeOld(workingDir: string): void {
  const fresh = newDraft();
  const tasks = fresh.form.tasks.map(({ working_dir: _, ...task }) => ({ ...task, command: "echo hi", timeout: "3h", workingDir }));
  sessionStorage.setItem(OLD, JSON.stringify({ ...fresh, yaml: "version: 1", requestId: "r1", form: { ...fresh.form, name: "long work", tasks } }));
}

beforeEach(() => sessionStorage.clear());

describe("a draft of an older page", () => {
  it("was lost when its slot got another name, and is now read with all that was typed", () => {
    writeOld("/root/nfs/run 1");
    const draft = loadDraft("ann");
    expect([draft.yaml, draft.requestId, draft.form.name]).toEqual(["version: 1", "r1", "long work"]);
    expect(draft.form.tasks[0]).toMatchObject({ command: "echo hi", timeout: "3h", working_dir: "/root/nfs/run 1" });
    expect(draft.form.tasks[0]).not.toHaveProperty("workingDir");
  });

  it("is moved once: a job that was submitted does not come back", () => {
    writeOld("/root");
    const draft = loadDraft("ann");
    expect([sessionStorage.getItem(OLD), sessionStorage.getItem(NEW)]).toEqual([null, JSON.stringify(draft)]);
    expect(loadDraft("ann")).toEqual(draft);
    forgetDraft("ann");
    expect(loadDraft("ann").form.name).toBe("my job");
  });

  it("never replaces what was typed since", () => {
    const draft = { ...newDraft(), yaml: "version: 1 # newer" };
    saveDraft("ann", draft);
    writeOld("/root");
    expect(loadDraft("ann")).toEqual(draft);
  });

  it("stays where it is while the new place can't be written", () => {
    writeOld("/root/nfs");
    const full = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new DOMException("full", "QuotaExceededError");
    });
    expect(loadDraft("ann").form.tasks[0]?.working_dir).toBe("/root/nfs");
    full.mockRestore();
    expect(sessionStorage.getItem(OLD)).not.toBeNull();
  });

  it("that can't be read is no draft", () => {
    sessionStorage.setItem(OLD, "{");
    expect(loadDraft("ann").form.name).toBe("my job");
  });
});
