import { act } from "react";
import { afterEach, describe, expect, it } from "vitest";

import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import { loadDraft, newDraft, saveDraft } from "../domain/draft";
import { emptyTask } from "../domain/form";
import { nowhere, placed } from "../domain/places";
import { type Drawn, drawn, until } from "../testing";
import { PlainInput, TaskFields } from "./task-fields";

let page: Drawn;
afterEach(() => page.close());

const nothing = (): void => undefined;

describe("the inputs of a task", () => {
  it("that came after a draft was kept have in it what a new task has", async () => {
    page = await drawn(null);
    const { retries: _, ...task } = { ...emptyTask("1", "a"), timeout: "5m" };
    const draft = newDraft();
    saveDraft("ann", { ...draft, form: draft.form && { ...draft.form, tasks: [task as never] } });
    expect(loadDraft("ann").draft.form?.tasks).toEqual([{ ...emptyTask("1", "a"), timeout: "5m" }]);
  });

  it("are all there, in the order of the table, each with what a new task has", async () => {
    page = await drawn(
      <TaskFields
        task={emptyTask("1", "a")}
        defaults={null}
        names={["a"]}
        places={nowhere}
        removable={false}
        images={[]}
        datasets={[]}
        advice={undefined}
        onImageText={nothing}
        onChange={nothing}
        onRemove={nothing}
        onLook={nothing}
      />,
    );
    expect(document.querySelectorAll("details[open]")).toHaveLength(0);
    for (const folded of document.querySelectorAll("details")) await act(async () => void (folded.open = true));
    await until(() => expect(document.querySelectorAll("details > .fields")).toHaveLength(1));
    const found = [...document.querySelectorAll<HTMLLabelElement>(".fields > label, .fields > .helped > label")].slice(1);
    // Those that few need come last, behind "More".
    const inOrder = [...INPUTS.filter((input) => !input.more), ...INPUTS.filter((input) => input.more)];
    expect(found.map((label) => label.querySelector("span")?.firstChild?.textContent)).toEqual(inOrder.map((input) => input.label));
    expect(found.map((label) => label.querySelector<HTMLInputElement | HTMLSelectElement>("input, select")?.value)).toEqual(inOrder.map((input) => input.start));
    expect(found[0]?.innerHTML).toBe('<span>Timeout<small> 90s, 15m, 2h</small></span><input required="" size="8" value="10m">');
  });

  it("are a choice where the table has words for it", async () => {
    const input: TaskInput = {
      key: "network", under: "", kind: "choice", mode: "", choices: ["outgoing", "none"], label: "Network", hint: "",
      placeholder: "", start: "", otherwise: "outgoing", width: null, required: false, exact: false, more: false,
    };
    page = await drawn(<PlainInput input={input} value="none" problems={[]} hint="" onValue={nothing} />);
    expect([...document.querySelectorAll("option")].map((option) => option.value)).toEqual(["", "outgoing", "none"]);
    expect(document.querySelector("select")?.value).toBe("none");
  });

  it("have each its own messages, told to those who can't see them, and open where one is folded away", async () => {
    const task = {
      ...emptyTask("1", "a"),
      env: [{ name: "A", value: "x" }, { name: "B", value: "y" }],
      ulimits: [{ name: "nofile", value: "1" }],
      needs: [{ task: "b", on: "success" as const }],
    };
    const pointers = ["name", "image", "command", "timeout", "resources/gpus", "resources/gpu_model/1", "log_limit", "shell", "env/B", "ulimits/nofile", "needs/0", "datasets/0", "code"];
    const problems = pointers.map((field) => ({ pointer: `/tasks/0/${field}`, message: `wrong ${field}`, line: null, column: null, word: "", allowed: [], suggestion: "" }));
    const form = { name: "", priority: "", loose: [], fixed: [], defaults: null, tasks: [task] };
    page = await drawn(
      <TaskFields
        task={task} defaults={null} names={["a", "b"]} places={placed(problems, form)} removable images={[]} datasets={[]} advice={undefined}
        onImageText={nothing} onChange={nothing} onRemove={nothing} onLook={nothing}
      />,
    );
    const wrong = [...document.querySelectorAll("[aria-invalid=true]")];
    const saying = wrong.map((one) => document.getElementById(one.getAttribute("aria-describedby") ?? "")?.textContent);
    expect(new Set(saying)).toEqual(new Set(problems.map((problem) => problem.message)));
    expect(document.querySelectorAll(".wrong-text")).toHaveLength(problems.length);
  });

  it("that a form can't show are left to the file", async () => {
    const task = { ...emptyTask("1", "a"), gpus: "", fixed: [{ field: "resources/gpus", why: "it is a list in the file" }] };
    page = await drawn(
      <TaskFields
        task={task} defaults={null} names={["a"]} places={nowhere} removable images={[]} datasets={[]} advice={undefined}
        onImageText={nothing} onChange={nothing} onRemove={nothing} onLook={nothing}
      />,
    );
    const label = [...document.querySelectorAll("label")].find((one) => one.textContent?.startsWith("GPUs"));
    expect([label?.querySelector("input")?.readOnly, label?.textContent]).toEqual([true, "GPUsChange it as YAML: it is a list in the file."]);
  });
});
