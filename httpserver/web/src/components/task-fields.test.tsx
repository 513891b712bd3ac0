import { afterEach, describe, expect, it } from "vitest";

import { INPUTS, type TaskInput } from "../api/generated/task-fields";
import { loadDraft, newDraft, saveDraft } from "../domain/draft";
import { emptyTask } from "../domain/form";
import { type Drawn, drawn } from "../testing";
import { PlainInput, TaskFields } from "./task-fields";

let page: Drawn;
afterEach(() => page.close());

const nothing = (): void => undefined;

describe("the inputs of a task", () => {
  it("that came after a draft was kept have in it what a new task has", async () => {
    page = await drawn(null);
    const { retries: _, ...task } = { ...emptyTask("1", "a"), timeout: "5m" };
    const draft = newDraft();
    saveDraft("ann", { ...draft, form: { ...draft.form, tasks: [task as never] } });
    expect(loadDraft("ann").form.tasks).toEqual([{ ...emptyTask("1", "a"), timeout: "5m" }]);
  });

  it("are all there, in the order of the table, each with what a new task has", async () => {
    page = await drawn(
      <TaskFields
        task={emptyTask("1", "a")}
        others={[]}
        problemsAt={() => []}
        removable={false}
        code={false}
        images={[]}
        datasets={[]}
        advice={undefined}
        onImageText={nothing}
        onChange={nothing}
        onRemove={nothing}
      />,
    );
    const found = [...document.querySelectorAll<HTMLLabelElement>(".fields > label, .fields > .helped > label")].slice(1);
    expect(found.map((label) => label.querySelector("span")?.firstChild?.textContent)).toEqual(INPUTS.map((input) => input.label));
    expect(found.map((label) => label.querySelector<HTMLInputElement | HTMLSelectElement>("input, select")?.value)).toEqual(INPUTS.map((input) => input.start));
    expect(found[0]?.innerHTML).toBe('<span>Timeout<small> 90s, 15m, 2h</small></span><input required="" size="8" value="10m">');
  });

  it("are a choice where the table has words for it", async () => {
    const input: TaskInput = {
      key: "network", under: "", kind: "choice", mode: "", choices: ["outgoing", "none"], label: "Network", hint: "",
      placeholder: "", start: "outgoing", width: null, required: false, always: false, exact: false,
    };
    page = await drawn(<PlainInput input={input} value="none" problems={[]} hint="" onValue={nothing} />);
    expect([...document.querySelectorAll("option")].map((option) => option.value)).toEqual(["outgoing", "none"]);
    expect(document.querySelector("select")?.value).toBe("none");
  });
});
