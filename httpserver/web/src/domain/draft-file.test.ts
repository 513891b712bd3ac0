import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import { type JobForm, type TaskForm, edited, emptyTask, removeTask, renameTask } from "./form";
import { readForm } from "./read-form";
import { carried, textOf } from "./write-form";

const FILE = `# what it is for
version: 1
name: digits                      # a label for people
priority: normal
defaults:                         # any task field
  image: base/python:1
  timeout: 10m
tasks:
  # the first
  - name: prepare
    command: |                    # text: a script
      python3 /root/nfs/prepare.py \\
        --out /root/nfs/data
      echo "prepared"
    resources: {cpus: 2., memory: 4GiB}

  - name: train
    needs: [prepare]              # the same as {prepare: success}
    image: 'team/torch:2.4'
    command: [python3, train.py, --epochs, "10"]   # a list
    env: {LR: "0.01", DEBUG: 'no', WHEN: yes}
    working_dir: /root/nfs
    datasets: [mnist]
    secrets: [TOKEN]
    resources: {cpus: 0x4, memory: 16GiB, shm: 8GiB, gpus: 1e0, gpu_model: [A100, H100], gpu_memory: 24GiB}
    ulimits: {nofile: 1024, memlock: {soft: 1MiB, hard: unlimited}}
    timeout: 1h30m
    retries: 2                    # flaky
    user: account

  - name: report
    needs: {prepare: success, train: any}
    command: >-
      cat /root/nfs/results/digits/*
      | sort
    shell: bash
# the end
`;

function formOf(text: string): JobForm {
  const read = readForm(text);
  if (read.form === null) throw new Error(read.why);
  return read.form;
}

const withTask = (form: JobForm, index: number, part: Partial<TaskForm>): JobForm => ({
  ...form,
  tasks: form.tasks.map((task, i) => (i === index ? edited(task, part) : task)),
});

const changed = (text: string, change: (form: JobForm) => JobForm): string => carried(text, change(formOf(text)));

/** The lines that are in one of the two only. */
const lines = (before: string, after: string): [string[], string[]] => {
  const [a, b] = [before.split("\n"), after.split("\n")];
  return [a.filter((line) => !b.includes(line)), b.filter((line) => !a.includes(line))];
};

describe("a file in the form", () => {
  it("is the same file as long as nothing is changed", () => {
    for (const text of [FILE, FILE.replaceAll("\n", "\r\n"), `\ufeff${FILE}`, JSON.stringify(parse(FILE)), "", "# nothing yet\n"]) expect(carried(text, formOf(text))).toBe(text);
  });

  it("shows what stands there, as it is written", () => {
    const form = formOf(FILE);
    expect([form.name, form.priority, form.defaults?.image, form.defaults?.timeout]).toEqual(["digits", "normal", "base/python:1", "10m"]);
    expect(form.tasks[0]).toMatchObject({ name: "prepare", image: "", timeout: "", cpus: "2.", mode: "script" });
    expect(form.tasks[1]).toMatchObject({ cpus: "0x4", gpus: "1e0", gpu_model: "A100, H100", mode: "argv", command: "python3\ntrain.py\n--epochs\n10", retries: "2" });
    expect(form.tasks[1]?.env).toEqual([{ at: 0, name: "LR", value: "0.01" }, { at: 1, name: "DEBUG", value: "no" }, { at: 2, name: "WHEN", value: "yes", loose: true }]);
    expect(form.tasks[1]?.ulimits.map((row) => row.value)).toEqual(["1024", "1MiB:unlimited"]);
    expect(form.tasks[2]?.needs.map(({ task, on }) => [task, on])).toEqual([["prepare", "success"], ["train", "any"]]);
  });

  it.each<[string, (form: JobForm) => JobForm, string[], string[]]>([
    ["a number keeps its line's comment", (form) => withTask(form, 1, { retries: "3" }), ["    retries: 2                    # flaky"], ["    retries: 3 # flaky"]],
    ["a text keeps its quotes", (form) => withTask(form, 1, { image: "team/torch:2.5" }), ["    image: 'team/torch:2.4'"], ["    image: 'team/torch:2.5'"]],
    ["a default", (form) => ({ ...form, defaults: form.defaults && edited(form.defaults, { timeout: "20m" }) }), ["  timeout: 10m"], ["  timeout: 20m"]],
    ["what a task says itself stands at the task", (form) => withTask(form, 0, { timeout: "5m" }), [], ["    timeout: 5m"]],
    ["a variable without quotes gets them when it is typed into", (form) => withTask(form, 1, { env: (form.tasks[1]?.env ?? []).map(({ loose: _, ...row }) => row) }), ["    env: {LR: \"0.01\", DEBUG: 'no', WHEN: yes}"], ["    env: {LR: \"0.01\", DEBUG: 'no', WHEN: \"yes\"}"]],
    ["a number that looks like one to some", (form) => withTask(form, 0, { cpus: "1.10" }), ["    resources: {cpus: 2., memory: 4GiB}"], ["    resources: {cpus: 1.10, memory: 4GiB}"]],
    ["a text that would be a number", (form) => withTask(form, 2, { image: "3.10", grace: "yes" }), [], ['    image: "3.10"', '    grace: "yes"']],
    ["a script", (form) => withTask(form, 0, { command: `${form.tasks[0]?.command ?? ""}true\n` }), [], ["      true"]],
    ["a word of a command", (form) => withTask(form, 1, { command: "python3\ntrain.py\n--epochs\n010" }), ['    command: [python3, train.py, --epochs, "10"]   # a list'], ['    command: [python3, train.py, --epochs, "010"] # a list']],
    ["a need", (form) => withTask(form, 2, { needs: (form.tasks[2]?.needs ?? []).slice(0, 1) }), ["    needs: {prepare: success, train: any}"], ["    needs: {prepare: success}"]],
    ["a limit", (form) => withTask(form, 1, { ulimits: [{ at: 0, name: "nofile", value: "1024:4096" }, { at: 1, name: "memlock", value: "1MiB:2MiB" }] }), ["    ulimits: {nofile: 1024, memlock: {soft: 1MiB, hard: unlimited}}"], ["    ulimits: {nofile: {soft: 1024, hard: 4096}, memlock: {soft: 1MiB, hard: 2MiB}}"]],
    ["a field that is emptied goes", (form) => withTask(form, 1, { working_dir: "", gpu_model: "A100" }), ["    working_dir: /root/nfs", "    resources: {cpus: 0x4, memory: 16GiB, shm: 8GiB, gpus: 1e0, gpu_model: [A100, H100], gpu_memory: 24GiB}"], ["    resources: {cpus: 0x4, memory: 16GiB, shm: 8GiB, gpus: 1e0, gpu_model: [A100], gpu_memory: 24GiB}"]],
    ["the name, and the needs of it", (form) => renameTask(form, "file-0", "clean"), ["  - name: prepare", "    needs: [prepare]              # the same as {prepare: success}", "    needs: {prepare: success, train: any}"], ["  - name: clean", "    needs: [clean] # the same as {prepare: success}", "    needs: {clean: success, train: any}"]],
  ])("%s, and no other line changes", (_, change, gone, come) => expect(lines(FILE, changed(FILE, change))).toEqual([gone, come]));

  it("what is said of a field that is emptied stays, above the next one", () => {
    const text = "tasks:\n  - name: a\n    # why twice\n    retries: 2 # flaky\n    needs:\n      - b # first\n      - c\n    command:\n      - x # program\n    timeout: 1m\n";
    const after = changed(text, (form) => withTask(form, 0, { retries: "", needs: (form.tasks[0]?.needs ?? []).slice(1), mode: "script", command: "echo" }));
    expect(after).toBe("tasks:\n  - name: a\n    # why twice\n    # flaky\n    needs:\n      - c\n      # first\n    # program\n    command: echo\n    timeout: 1m\n");
    expect(formOf(text).tasks[0]?.comments).toBe(true);
  });

  it("takes a task out and another in, and leaves the others alone", () => {
    const text = changed(FILE, (form) => {
      const left = removeTask(form, "file-0");
      return { ...left, tasks: [...left.tasks, { ...emptyTask("new", "after"), command: "echo 'a: b'\ntrue\n", env: [{ name: "__proto__", value: "no" }] }] };
    });
    const [gone, come] = lines(FILE, text);
    expect(come.slice(0, 4)).toEqual(["    # the same as {prepare: success}", "    needs: {train: any}", "  - name: after", "    command: |"]);
    expect(gone).not.toContain("    retries: 2                    # flaky");
    expect(formOf(text).tasks[2]?.env).toEqual([{ at: 0, name: "__proto__", value: "no" }]);
    expect(text).toContain("# the end");
  });

  it("the first task's comment goes with it; what is said of the list stays, and a trip keeps an emptied name's needs", () => {
    const two = (head: string): string => `tasks:${head}  - name: a\n  - name: b\n`;
    const without = (head: string): string => changed(two(head), (form) => removeTask(form, "file-0"));
    expect(without("\n  # the first\n  # of two\n")).toBe("tasks:\n  - name: b\n");
    expect(without(" # all\n  # the first\n")).toBe("tasks: # all\n  - name: b\n");
    expect(without("\n  # all\n\n  # the first\n")).toBe("tasks:\n  # all\n\n  - name: b\n");
    expect(without("\n  # all\n\n")).toBe("tasks:\n  # all\n\n  - name: b\n");
    expect([formOf(two("\n  # the first\n")), formOf(two(" # all\n"))].map((form) => form.tasks[0]?.comments)).toEqual([true, undefined]);
    const emptied = changed("tasks:\n  - name: a\n  - name: b\n    needs: [a]\n", (form) => renameTask(form, "file-0", ""));
    expect(parse(changed(emptied, (form) => renameTask(form, "file-0", "z")))).toEqual({ tasks: [{ name: "z" }, { name: "b", needs: ["z"] }] });
  });

  it("keeps what stands beside in another layout", () => {
    const text = "name:   x   # n\ntasks:\n- name: a     # first\n  command: 'true'\n\n\n- name: b\n  retries: 010\n";
    expect(changed(text, (form) => withTask(form, 1, { image: "img" }))).toBe("name:   x   # n\ntasks:\n- name: a     # first\n  command: 'true'\n\n\n- name: b\n  image: img\n  retries: 010\n");
  });

  it("stays JSON where it was", () => {
    const text = JSON.stringify(parse(FILE), null, 4);
    const after = JSON.parse(changed(text, (form) => withTask(form, 0, { timeout: "5m", env: [{ name: "A", value: "1\n2" }] }))) as { tasks: { [key: string]: unknown }[] };
    expect(after.tasks[0]).toMatchObject({ timeout: "5m", env: { A: "1\n2" } });
  });

  it("with aliases: a value that changes is written out, the others stay what they are", () => {
    const text = "name: x\ntasks:\n  - name: a\n    resources: &small {cpus: 1, memory: 2GiB} # r\n  - name: b\n    resources: *small\n  - name: c\n    resources: *small\n";
    const [last, first] = [2, 0].map((index) => changed(text, (form) => withTask(form, index, { cpus: "4" })));
    expect(lines(text, last ?? "")).toEqual([[], ["    resources: {cpus: 4, memory: 2GiB}"]]);
    expect(parse(first ?? "")).toEqual({ name: "x", tasks: [4, 1, 1].map((cpus, i) => ({ name: "abc"[i], resources: { cpus, memory: "2GiB" } })) });
    const read = readForm(text);
    expect(read.form && read.notes.join(" ")).toContain("anchors");
    expect(parse(changed(text, (form) => removeTask(form, "file-0")))).toMatchObject({ tasks: [{ resources: { cpus: 1 } }, { resources: { cpus: 1 } }] });
  });

  it.each([
    ["a: [", /can't be read as YAML: line/],
    ["name: x\n---\nname: y\n", /more than one document/],
    ["- a\n- b\n", /is a list/],
    ["version: 2\nname: x\n", /version '2'/],
    ["name: x\ntasks:\n  - <<: {a: b}\n", /merge key/],
    ["name: x\ntasks:\n  - name: !!str 1\n", /a tag, '!!str'/],
    ["name: x\nname: y\n", /'name' is written twice/],
    ["tasks:\n  - name: *a\n", /alias/],
    [`name: x\ntasks:\n${"  - name: a\n".repeat(2000)}`, /2,000 tasks; the form shows up to 100/],
    [`name: ${"x".repeat(700_000)}\n`, /characters/],
    ["[".repeat(20_000), /nested too deep|can't be read/],
  ])("%.20j has no form, and it says why", (text, why) => {
    const read = readForm(text);
    expect(read.form === null && read.why).toMatch(why);
  });

  it("keeps what it has no field for, and says so", () => {
    const text = "name: x\nnproc: 3 # why\ntasks:\n  - name: a\n    command: {a: 1}\n    env: {A: [1], \"B\\u202e\": 'x'}\n    working_dir: \"a\\nb\"\n";
    const read = readForm(text);
    expect(read.form && read.notes[0]).toBe("The form has no field for 'nproc'. What stands there stays in the file.");
    expect(read.form?.tasks[0]?.fixed.map((one) => one.field)).toEqual(["working_dir", "command"]);
    expect(read.form?.tasks[0]?.env[0]?.fixed).toContain("a list");
    expect(lines(text, changed(text, (form) => withTask(form, 0, { timeout: "1m" })))).toEqual([[], ["    timeout: 1m"]]);
  });

  it("writes hostile names and texts so that they are read as they were", () => {
    const names = ["__proto__", "constructor", "x".repeat(100_000), "\u202ereversed", "a\u0000b\u0085", "y", "~", "- a", "a: b", " lead", "#", "", "\ud800"];
    const env = names.map((name) => ({ name, value: name }));
    const text = textOf({ name: "\u2028", priority: "", loose: [], fixed: [], defaults: null, tasks: [{ ...emptyTask("1", "a"), env, command: " first\n\ttab \n\n" }] });
    const form = formOf(text);
    expect(form.name).toBe("\u2028");
    expect(form.tasks[0]?.command).toBe(" first\n\ttab \n\n");
    const back = form.tasks[0]?.env.map((row) => row.name);
    expect(back).toEqual(names.filter((name) => name !== ""));
    expect(text).not.toMatch(/[\u0000\u0085\u2028]/);
    const again = changed(text, (f) => withTask(f, 0, { image: "b" }));
    expect(formOf(again).tasks[0]?.env).toEqual(form.tasks[0]?.env);
  });
});
