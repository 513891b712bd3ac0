import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import type { Attempt, JobDetail, Task } from "../api/client";
import { applyTo, mergeAttempt, mergeJob, mergeTask, noChanges, noteTask } from "../api/events";
import { moment, size, span, ulimits } from "./format";
import { INPUTS } from "../api/generated/task-fields";
import { type JobForm, addTask, bound, edited, emptyTask, holding, numberOrText, removeTask, renameTask, restoreTask, told } from "./form";
import { placeOf, placed } from "./places";
import { textOf } from "./write-form";
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
  loose: [],
  fixed: [],
  defaults: null,
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
  it("has an input for each row of the table, with what a new task starts with", () => {
    for (const input of INPUTS) expect(emptyTask("1", "a")).toHaveProperty(input.key, input.start);
  });

  it("shows what holds where nothing is written: what all tasks share, else the default", () => {
    const defaults = { ...emptyTask("defaults", ""), timeout: "2h", image: "img", gpus: "" };
    const task = { ...emptyTask("1", "a"), timeout: "", gpus: "", command: "true" };
    expect(holding(task, defaults)).toMatchObject({ timeout: "2h", image: "img", gpus: "", command: "true" });
    const [timeout, retries] = [INPUTS[0], INPUTS[1]];
    expect([told(timeout, defaults), told(retries, defaults), told(timeout, null)]).toEqual(["2h", "0", ""]);
    expect(edited({ ...task, loose: ["image", "resources/cpus"] }, { cpus: "1" }).loose).toEqual(["image"]);
  });

  it("says the job file that it means", () => {
    const file = parse(textOf(diamond)) as { [key: string]: unknown };
    expect(Object.keys(file)).toEqual(["version", "name", "priority", "tasks"]);
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
        resources: { cpus: "half", memory: "2GiB", gpus: 0 },
        timeout: "10m",
      },
    ]);
  });

  it("keeps needs right when a task is renamed or removed", () => {
    expect(renameTask(diamond, "1", "z").tasks[1]?.needs).toEqual([{ task: "z", on: "success", key: "1" }]);
    const left = removeTask(diamond, "1");
    expect(left.tasks.map((t) => t.needs)).toEqual([[], []]);
  });

  const job = (...tasks: [string, string, ...string[]][]): JobForm => ({
    ...diamond,
    tasks: tasks.map(([key, name, ...needs]) => ({ ...emptyTask(key, name), needs: needs.map((task) => ({ task, on: "success" as const })) })),
  });
  const typed = (form: JobForm, key: string, ...names: string[]): JobForm => names.reduce((old, name) => renameTask(old, key, name), form);
  const needsOf = (form: JobForm): string[][] => form.tasks.map((task) => task.needs.map((need) => need.task));

  it("a need follows its task, and a name on the way of another one rewires nobody", () => {
    const start = job(["1", "task-1"], ["2", "task-12"], ["3", "c", "task-1", "nobody"]);
    const after = typed(start, "2", "task-1", "task-13");
    expect(needsOf(after)).toEqual([[], [], ["task-1", "nobody"]]);
    expect(needsOf(typed(after, "1", "task-", "task", "", "p", "prepare"))[2]).toEqual(["prepare", "nobody"]);
    // Two of one name for a while: each keeps those that need it.
    expect(needsOf(typed(typed(start, "2", "task-1"), "1", "first"))[2]).toEqual(["first", "nobody"]);
    // A name on the way is not what was meant; one that stays is.
    expect(needsOf(typed(start, "2", "nobod", "nobody", "nobody-2"))[2]).toEqual(["task-1", "nobody"]);
    expect(needsOf(typed(bound(typed(start, "2", "nobody")), "2", "somebody"))[2]).toEqual(["task-1", "somebody"]);
  });

  it("removing one of two tasks of one name leaves what needs the other", () => {
    const collided = typed(job(["1", "a"], ["2", "b"], ["3", "c", "a", "b"]), "2", "a");
    expect(needsOf(removeTask(collided, "1"))).toEqual([[], ["a"]]);
    expect(needsOf(removeTask(job(["1", "a"], ["2", "a"], ["3", "c", "a"]), "1"))).toEqual([[], ["a"]]);
    expect(needsOf(removeTask(removeTask(job(["1", "a"], ["2", "a"], ["3", "c", "a"]), "1"), "2"))).toEqual([[]]);
  });

  it("a removed task comes back with what needed it, and what was done since stays", () => {
    const start = bound(job(["1", "a"], ["2", "b", "a"], ["3", "c", "a", "b"]));
    for (const key of ["1", "2", "3"]) expect(restoreTask(removeTask(start, key), start, key)).toEqual(start);
    const since = typed(removeTask(start, "1"), "2", "bee");
    expect(restoreTask(since, start, "1").tasks.map((task) => [task.name, ...task.needs.map((need) => need.task)])).toEqual([["a"], ["bee", "a"], ["c", "a", "bee"]]);
    const renamed = typed(removeTask(start, "3"), "1", "z");
    expect(needsOf(restoreTask(renamed, start, "3"))[2]).toEqual(["z", "b"]);
    expect(needsOf(restoreTask(removeTask(renamed, "1"), start, "3"))).toEqual([[], ["b"]]);
  });

  it("a new task has a name of its own", () => {
    const left = removeTask(job(["1", "task-1"], ["2", "task-2"], ["3", "task-3"]), "1");
    const added = addTask(left, "new").tasks.at(-1);
    expect([added?.name, added?.needs]).toEqual(["task-4", [{ task: "task-3", on: "success", key: "3" }]]);
    expect(addTask(job(), "new").tasks[0]).toMatchObject({ name: "task-1", needs: [] });
  });

  it.each([
    ["/name", "", "name"],
    ["/priority", "", "priority"],
    ["", "the job file has no name; write a label", "name"],
    ["", "and 3 more problems", null],
    ["/defaults/code", "", "code"],
    ["/defaults/timeout", "", "defaults:timeout"],
    ["/defaults", "", null],
    ["/tasks", "a loop", null],
    ["/tasks/9/image", "", null],
    ["/tasks/1", "", "2"],
    ["/tasks/1", "task 'b' has no image; write for instance image: base/python:1", "2:image"],
    ["/tasks/1/command/0", "", "2:command"],
    ["/tasks/1/needs/0", "", "2:needs/a"],
    ["/tasks/1/needs/a", "", "2:needs/a"],
    ["/tasks/1/needs/zz", "", "2:needs"],
    ["/tasks/1/datasets/0", "", "2:datasets"],
    ["/tasks/0/env/LR", "", "1:env/LR"],
    ["/tasks/0/env/a~1b~0c", "", "1:env/a/b~c"],
    ["/tasks/0/env", "", "1:env"],
    ["/tasks/0/ulimits/nofile/soft", "", "1:ulimits/nofile"],
    ["/tasks/0/resources/gpu_model/1", "", "1:resources/gpu_model"],
    ["/tasks/0/resources/disk", "", "1"],
    ["/tasks/0/log_limit", "", "1:log_limit"],
    ["/tasks/0/nproc", "", "1"],
    ["/tasks/10/name", "", null],
  ])("the place of a problem at %j (%s) is %j", (pointer, message, want) => {
    const [a, ...others] = diamond.tasks;
    if (a === undefined) throw new Error("no task");
    const rows = { env: [...a.env, { name: "a/b~c", value: "" }], ulimits: [{ name: "nofile", value: "1:2" }] };
    const form = { ...diamond, defaults: emptyTask("defaults", ""), tasks: [{ ...a, ...rows }, ...others] };
    expect(placeOf({ pointer, message }, form)).toBe(want);
    const problem = { pointer, message, line: null, column: null, word: "", allowed: [], suggestion: "" };
    const places = placed([problem], form);
    expect([places.at(want ?? "no such place").length, places.rest.length]).toEqual(want === null ? [0, 1] : [1, 0]);
  });
});

describe("a message", () => {
  const problem = (pointer: string): { pointer: string; message: string; line: null; column: null; word: string; allowed: []; suggestion: string } =>
    ({ pointer, message: "", line: null, column: null, word: "", allowed: [], suggestion: "" });
  const task = { ...emptyTask("1", "a"), env: [{ name: "A", value: "yes", loose: true as const }, { name: "B", value: "" }] };
  const form: JobForm = { ...diamond, tasks: [task, emptyTask("2", "b")] };
  const pointers = ["/name", "/tasks/0/timeout", "/tasks/0/resources/gpus", "/tasks/0/env/A", "/tasks/0/env/B", "/tasks/1"];
  const places = ["name", "1:timeout", "1:resources/gpus", "1:env/A", "1:env/B", "2"];

  it.each<[string, JobForm, readonly string[]]>([
    ["nothing", form, []],
    ["the name", { ...form, name: "e" }, ["name"]],
    ["a number", { ...form, tasks: [edited(task, { gpus: "9" }), emptyTask("2", "b")] }, ["1:resources/gpus"]],
    ["a variable that gets its quotes", { ...form, tasks: [{ ...task, env: [{ name: "A", value: "yes" }, { name: "B", value: "" }] }, emptyTask("2", "b")] }, ["1:env/A"]],
    ["a task that went, while the other moved up", { ...form, tasks: [emptyTask("2", "b")] }, ["1:timeout", "1:resources/gpus", "1:env/A", "1:env/B"]],
  ])("is gone once its field was changed: %s", (_, now, gone) => {
    const found = placed(pointers.map(problem), form, now);
    expect(places.filter((place) => found.at(place).length === 0)).toEqual(gone);
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
