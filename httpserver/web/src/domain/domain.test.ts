import { describe, expect, it } from "vitest";

import type { Attempt, JobDetail, Task } from "../api/client";
import { applyTo, mergeAttempt, mergeJob, mergeTask, noChanges, noteTask } from "../api/events";
import { moment, size, span, ulimits } from "./format";
import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import { type JobForm, emptyTask, isAt, numberOrText, removeTask, renameTask, toJobFile, typed } from "./form";
import { zone } from "./zone";

describe("formats", () => {
  it.each([
    [0.25, "250 ms"],
    [1, "1 s"],
    [59.94, "59.9 s"],
    [190, "3 m 10 s"],
    [7500, "2 h 5 m"],
    [3 * 86400 + 4 * 3600, "3 d 4 h"],
    [-1, "0 ms"],
    [null, "–"],
  ])("span(%s) is %s", (seconds, want) => expect(span(seconds)).toBe(want));

  it.each([
    [0, "0 B"],
    [1536, "1.5 KiB"],
    [16 * 2 ** 30, "16.0 GiB"],
    [null, "–"],
  ])("size(%s) is %s", (bytes, want) => expect(size(bytes)).toBe(want));

  it("limits of processes", () => {
    expect(ulimits({ memlock: -1, nofile: 1048576 })).toBe("memlock unlimited, nofile 1048576");
    expect(ulimits({ memlock: 8 << 20 })).toBe("memlock 8.0 MiB");
  });

  it("shows the date only when it is another day", () => {
    const now = new Date(2026, 5, 1, 12).getTime() / 1000;
    expect(moment(now, now)).toBe(`${new Date(now * 1000).toLocaleTimeString()} ${zone(new Date(now * 1000))}`);
    expect(moment(now - 2 * 86400, now)).toBe(`${new Date((now - 2 * 86400) * 1000).toLocaleString()} ${zone(new Date((now - 2 * 86400) * 1000))}`);
  });
});

const diamond: JobForm = {
  name: "d",
  priority: "normal",
  code: null,
  tasks: [
    { ...emptyTask("1", "a", "img"), command: "echo $HOME\n", env: [{ name: "LR", value: "0.10" }] },
    {
      ...emptyTask("2", "b", "img"),
      mode: "argv",
      command: "python3\ntrain.py\n",
      retries: "2",
      gpus: "1",
      needs: [{ task: "a", on: "success" }],
    },
    { ...emptyTask("3", "c", "img"), needs: [{ task: "a", on: "failure" }], cpus: "half" },
  ],
};

describe("the form", () => {
  it("has an input for each row of the table, and says what is typed there", () => {
    const plain: TaskInput = {
      key: "nice", under: "", kind: "number", mode: "numeric", choices: [], label: "Niceness", hint: "", placeholder: "",
      start: "0", width: 4, required: false, always: false, exact: false,
    };
    const task = { nice: " 5 ", disk: "1GiB ", path: " a" };
    expect(typed(task, [plain])).toEqual({ nice: 5 });
    expect(typed({ ...task, nice: "0" }, [plain])).toEqual({});
    expect(typed({}, [plain, { ...plain, always: true, under: "resources" }])).toEqual({ resources: { nice: 0 } });
    expect(typed(task, [plain, { ...plain, key: "disk", kind: "text", start: "" }])).toEqual({ nice: 5, disk: "1GiB" });
    expect(typed(task, [{ ...plain, key: "path", kind: "text", start: "", exact: true }])).toEqual({ path: " a" });
    for (const input of INPUTS) expect(emptyTask("1", "a")).toHaveProperty(input.key, input.start);
  });

  it("says the job file that it means", () => {
    const file = toJobFile(diamond);
    expect(file["tasks"]).toEqual([
      {
        name: "a",
        image: "img",
        command: "echo $HOME\n",
        env: { LR: "0.10" },
        resources: { cpus: 1, memory: "2GiB", gpus: 0 },
        timeout: "10m",
      },
      {
        name: "b",
        needs: ["a"],
        image: "img",
        command: ["python3", "train.py"],
        resources: { cpus: 1, memory: "2GiB", gpus: 1 },
        timeout: "10m",
        retries: 2,
      },
      {
        name: "c",
        needs: { a: "failure" },
        image: "img",
        command: "",
        resources: { cpus: "half", memory: "2GiB", gpus: 0 },
        timeout: "10m",
      },
    ]);
  });

  it("keeps needs right when a task is renamed or removed", () => {
    expect(renameTask(diamond, "1", "z").tasks[1]?.needs).toEqual([{ task: "z", on: "success" }]);
    const left = removeTask(diamond, "1");
    expect(left.tasks.map((t) => t.needs)).toEqual([[], []]);
  });

  it("finds the field of a problem", () => {
    expect(isAt({ pointer: "/tasks/1/needs/a" }, "/tasks/1/needs")).toBe(true);
    expect(isAt({ pointer: "/tasks/10" }, "/tasks/1")).toBe(false);
  });
});

describe("live changes", () => {
  const task = (name: string, over: Partial<Task> = {}): Task =>
    ({ name, state: "QUEUED", generation: 1, attempt: 0, attempts: [], waits: [], place: null, ...over }) as unknown as Task;
  const attempt = (number: number, state: string): Attempt => ({ number, state }) as unknown as Attempt;
  const old = task("a", { attempts: [attempt(1, "LOST")], attempt: 1 });
  const detail = { id: "j", version: 5, state: "RUNNING", tasks: [old, task("b")] } as unknown as JobDetail;

  it("an older view of a job changes nothing", () => {
    expect(mergeJob(detail, { ...detail, version: 4, state: "PENDING" }).state).toBe("RUNNING");
    expect(mergeJob(detail, { ...detail, version: 6, state: "FAILED" }).state).toBe("FAILED");
  });

  it("a task's change keeps its attempts", () => {
    const merged = mergeTask(old, task("a", { state: "RUNNING", attempt: 1 }));
    expect(merged.state).toBe("RUNNING");
    expect(merged.attempts).toHaveLength(1);
  });

  it("old news of a task changes nothing, a retry does", () => {
    const ended = task("a", { state: "FAILED", attempt: 2 });
    expect(mergeTask(ended, task("a", { state: "RUNNING", attempt: 2 }))).toBe(ended);
    expect(mergeTask(ended, task("a", { state: "RUNNING", attempt: 1 }))).toBe(ended);
    expect(mergeTask(ended, task("a", { state: "QUEUED", attempt: 2, generation: 2 })).state).toBe("QUEUED");
    expect(mergeTask(task("a", { state: "RUNNING", attempt: 1 }), task("a", { attempt: 1 })).state).toBe("QUEUED");
  });

  it("an attempt's change replaces or adds it", () => {
    expect(mergeAttempt(old, attempt(2, "RUNNING")).attempts.map((a) => a.state)).toEqual(["LOST", "RUNNING"]);
    expect(mergeAttempt(old, attempt(1, "FAILED")).attempts.map((a) => a.state)).toEqual(["FAILED"]);
  });

  it("many changes are one new picture, in the order they came", () => {
    const changes = noChanges();
    noteTask(changes, "j", "b", (t) => mergeTask(t, task("b", { state: "RUNNING", attempt: 1 })));
    noteTask(changes, "j", "b", (t) => mergeTask(t, task("b", { state: "SUCCEEDED", attempt: 1 })));
    noteTask(changes, "j", "b", (t) => mergeAttempt(t, attempt(1, "SUCCEEDED")));
    noteTask(changes, "j", "gone", (t) => t);
    changes.jobs.set("j", { ...detail, version: 7, state: "SUCCEEDED" });
    const next = applyTo(detail, changes);
    expect([next.state, next.tasks[1]?.state, next.tasks[1]?.attempts.length]).toEqual(["SUCCEEDED", "SUCCEEDED", 1]);
    expect(next.tasks[0]).toBe(detail.tasks[0]);
    expect(applyTo(detail, noChanges())).toBe(detail);
  });
});

describe("numbers as they are typed into the form", () => {
  it.each([
    ["2", 2],
    ["2.", 2],
    [" .5 ", 0.5],
    ["1e1", 10],
    ["-1", -1],
    ["half", "half"],
    ["1_0", "1_0"],
    [".", "."],
    ["", ""],
  ])("%s is %s", (text, want) => expect(numberOrText(text)).toBe(want));
});
