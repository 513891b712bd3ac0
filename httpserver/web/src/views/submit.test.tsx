import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import type { User } from "../api/client";
import { loadDraft, newDraft, saveDraft } from "../domain/draft";
import { type Drawn, button, drawn, press, until } from "../testing";
import { Submit } from "./submit";

let page: Drawn;
const user = { name: "ann", may_use_high_priority: false } as User;
const file = (name: string): string => `name: ${name}\ntasks:\n  - name: a\n    image: base/python:1\n    command: 'true'\n    timeout: 1m\n`;

/** What the server says of the file of a job, and of a submit; each may wait. */
let spec: () => Promise<Response>;
let submitted: (body: string) => Promise<Response>;
const sent: string[] = [];

beforeEach(() => {
  sessionStorage.clear();
  sent.length = 0;
  spec = () => Promise.resolve(new Response(file("cloned")));
  submitted = () => Promise.resolve(Response.json({ id: "j9", task_count: 1, order: ["a"], warnings: [], timeouts: [], preview: null }));
  Element.prototype.scrollIntoView ??= () => undefined;
  vi.spyOn(globalThis, "fetch").mockImplementation(((url: unknown, how?: RequestInit) => {
    if (String(url).endsWith("/spec?format=yaml")) return spec();
    if (url === "/api/v1/jobs" && how?.method === "POST") {
      sent.push(String(how.body));
      return submitted(String(how.body));
    }
    return Promise.reject(new TypeError("not here"));
  }) as typeof fetch);
});

afterEach(async () => {
  await page.close();
  vi.restoreAllMocks();
});

const open = async (clone?: string): Promise<void> => {
  page = await drawn(<Submit user={user} {...(clone === undefined ? {} : { clone })} />);
};
const editor = (): HTMLTextAreaElement => document.querySelector<HTMLTextAreaElement>(".editor textarea") as HTMLTextAreaElement;
const field = (label: string, nth = 0): HTMLInputElement =>
  [...document.querySelectorAll("label")].filter((one) => one.querySelector("span")?.firstChild?.textContent === label)[nth]?.querySelector("input, textarea") as HTMLInputElement;
const type = (element: HTMLInputElement | HTMLTextAreaElement, text: string): Promise<void> =>
  act(async () => {
    const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), "value") ?? {};
    set?.call(element, text);
    element.dispatchEvent(new Event("input", { bubbles: true }));
  });
/** Key by key, with the name that it has each time, and then away from the field. */
const rename = async (nth: number, ...names: string[]): Promise<void> => {
  for (const name of names) await type(field("Task name", nth), name);
  await act(async () => field("Task name", nth).dispatchEvent(new FocusEvent("focusout", { bubbles: true })));
};
const key = (element: Element, init: KeyboardEventInit): Promise<boolean> => {
  const event = new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init });
  return act(async () => element.dispatchEvent(event));
};
const choose = (name: string, bytes: Uint8Array): Promise<void> =>
  act(async () => {
    const input = document.querySelector<HTMLInputElement>('main input[type=file], input[accept=".yaml,.yml,.json"]') as HTMLInputElement;
    const chosen = { name, size: bytes.length, arrayBuffer: () => Promise.resolve(bytes.buffer) };
    Object.defineProperty(input, "files", { value: [chosen], configurable: true });
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
const tab = (name: string): Promise<void> => press([...document.querySelectorAll<HTMLElement>("[role=tab]")].find((one) => one.textContent === name) as HTMLElement);
const told = (): string => document.querySelector(".draft-notices")?.textContent ?? "";

it("needs stay with their tasks while names are typed, and a removed task comes back", async () => {
  saveDraft("ann", { ...newDraft(), form: null, text: "name: x\ntasks:\n  # the first\n  - name: task-1\n  - name: task-12\n  - name: c\n    needs: [task-1]\n" });
  await open();
  await tab("Form");
  await rename(1, "task-1", "task-13");
  await rename(0, "task-", "", "p", "prep");
  const before = "name: x\ntasks:\n  # the first\n  - name: prep\n  - name: task-13\n  - name: c\n    needs: [prep]\n";
  await tab("YAML");
  expect(editor().value).toBe(before);
  await tab("Form");
  await press(button("Remove this task and its comments in the file"));
  expect(document.body.textContent).toContain("Task prep was removed with its comments in the file.");
  expect(document.activeElement?.textContent).toBe("Undo");
  await press(button("Undo"));
  await tab("YAML");
  expect(editor().value).toBe(before);
  await tab("Form");
  await press(button("Remove this task and its comments in the file"));
  await press(button("Add a task"));
  await tab("YAML");
  expect(editor().value).toMatch(/^name: x\ntasks:\n {2}- name: task-13\n {2}- name: c\n {2}- name: task-3\n[^]*needs: \[c\]/);
});

it("a file that is no text is told with the place, and nothing is changed", async () => {
  await open();
  await tab("YAML");
  const before = editor().value;
  await choose("job.yaml", Uint8Array.from([0x61, 0x3a, 0x20, 0xe9]));
  expect(document.body.textContent).toContain("job.yaml was not opened: line 1, column 4: the byte 0xE9 is not UTF-8. Save the file as UTF-8.");
  expect(editor().value).toBe(before);
  await choose("job.yaml", new TextEncoder().encode("a: é\r\n"));
  expect(editor().value).toBe("a: é\n");
  expect(loadDraft("ann").draft.text).toBe("a: é\r\n");
  expect(document.body.textContent).not.toContain("was not opened");
});

it("a draft that the tab can't keep says so, and no older one comes back", async () => {
  await open();
  await tab("YAML");
  await type(editor(), "name: kept\n");
  const set = Storage.prototype.setItem;
  vi.spyOn(Storage.prototype, "setItem").mockImplementation(function (this: Storage, slot: string, value: string) {
    if (value.length > 5_000_000) throw new DOMException("full", "QuotaExceededError");
    set.call(this, slot, value);
  });
  await type(editor(), "x".repeat(5_100_000));
  expect(told()).toContain("This draft is too large to be kept in this tab.");
  expect(loadDraft("ann").draft.text).toBe(newDraft().text);
  await type(editor(), "name: small\n");
  expect(told()).toBe("");
  expect(loadDraft("ann").draft.text).toBe("name: small\n");
});

it("a clone comes at each visit, and a reload keeps what was taken in its place", async () => {
  await open();
  await type(field("Job name"), "half written");
  await page.close();
  await open("j1");
  await until(() => expect(editor()?.value).toBe(file("cloned")));
  await press(button("Take it instead"));
  expect(editor().value).toContain("half written");
  expect(told()).toContain("put aside for this one: cloned");
  // A reload keeps the entry of the history, and with it the draft.
  const state: unknown = window.history.state;
  await page.close();
  window.history.replaceState(state, "");
  await open("j1");
  expect(editor().value).toContain("half written");
  // Another visit does not.
  await page.close();
  await open("j1");
  await until(() => expect(editor().value).toBe(file("cloned")));
  expect(told()).toContain("put aside for this one: half written");
});

it("a clone that does not come says so, and nothing else is sent in its place", async () => {
  spec = () => Promise.reject(new TypeError("no network"));
  await open("j1");
  await until(() => expect(told()).toContain("The file of that job did not come. Headway does not answer."));
  expect(button("Submit").disabled).toBe(true);
  await key(field("Job name"), { key: "Enter", ctrlKey: true });
  expect(sent).toEqual([]);
  spec = () => Promise.resolve(Response.json({ type: "x", title: "No such job", status: 404, detail: "There is no job j1.", slug: "not-found", problems: [] }, { status: 404 }));
  await press(button("Try again"));
  await until(() => expect(told()).toContain("no job j1"));
  await press(button("Go on with this draft"));
  expect([told(), button("Submit").disabled]).toEqual(["", false]);
  await page.close();
  await open("j1");
  await until(() => expect(told()).toContain("did not come"));
  spec = () => Promise.resolve(new Response(file("cloned")));
  await press(button("Try again"));
  await until(() => expect(editor()?.value).toBe(file("cloned")));
  expect([told(), button("Submit").disabled]).toEqual(["", false]);
});

it("Enter in a field sends nothing, Ctrl+Enter does, and while it is sent nothing can be typed", async () => {
  saveDraft("ann", { ...newDraft(), form: null, text: file("x") });
  await open();
  await tab("Form");
  for (const label of ["Job name", "Task name"]) expect(await key(field(label), { key: "Enter" })).toBe(false);
  expect(await key(field("Command"), { key: "Enter" })).toBe(true);
  await act(async () => document.querySelector("form")?.requestSubmit());
  expect(sent).toEqual([]);
  let fail: (error: Error) => void = () => undefined;
  submitted = () => new Promise((_, reject) => (fail = reject));
  field("Job name").focus();
  await key(field("Job name"), { key: "Enter", ctrlKey: true });
  expect(sent).toEqual([file("x")]);
  expect(button("Sending …").disabled).toBe(true);
  expect(field("Job name").closest("[inert]")).not.toBeNull();
  expect(document.querySelector("[role=tablist]")?.hasAttribute("inert")).toBe(true);
  await act(async () => fail(new Error("no network")));
  expect(field("Job name").closest("[inert]")).toBeNull();
  await tab("YAML");
  await press(button("Submit"));
  expect(sent).toHaveLength(2);
  expect(editor().readOnly).toBe(true);
  await act(async () => fail(new Error("no network")));
  expect(editor().readOnly).toBe(false);
});

it("Tab in the editor types, so that the browser can undo it, and the caret stays", async () => {
  await open();
  await tab("YAML");
  await type(editor(), "ab");
  act(() => editor().setSelectionRange(1, 1));
  const typed = vi.fn((_: string, __: boolean, text: string) => {
    editor().setRangeText(text, editor().selectionStart, editor().selectionEnd, "end");
    editor().dispatchEvent(new Event("input", { bubbles: true }));
    return true;
  });
  Object.assign(document, { execCommand: typed });
  expect(await key(editor(), { key: "Tab" })).toBe(false);
  expect(typed).toHaveBeenCalledWith("insertText", false, "  ");
  expect([editor().value, editor().selectionStart]).toEqual(["a  b", 3]);
  // Where a browser has no such history the text is the same.
  Object.assign(document, { execCommand: () => false });
  await key(editor(), { key: "Tab" });
  expect([editor().value, editor().selectionStart]).toEqual(["a    b", 5]);
  expect(await key(editor(), { key: "Tab", shiftKey: true })).toBe(true);
  expect(loadDraft("ann").draft.text).toBe("a    b");
});
