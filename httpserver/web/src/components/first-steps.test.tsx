import { afterEach, expect, it, vi } from "vitest";

import type { User } from "../api/client";
import { type Drawn, button, drawn, until } from "../testing";
import { FirstSteps } from "./first-steps";

let page: Drawn;
const asked: { url: string; body: unknown }[] = [];

const open = async (answer: () => Response): Promise<void> => {
  asked.length = 0;
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    asked.push({ url, body: JSON.parse(String(init?.body ?? "null")) });
    return answer();
  });
  page = await drawn(<FirstSteps user={{ name: "anna" } as User} />);
};
const text = (): string => document.querySelector(".first-steps li")?.textContent ?? "";
const refusal = (errors: object[]): Response =>
  Response.json({ detail: "The job file has problems.", title: "", slug: "job-file", errors }, { status: 422, headers: { "Content-Type": "application/problem+json" } });

afterEach(async () => {
  await page.close();
  vi.unstubAllGlobals();
});

it("the example is offered where the server would take it, whatever images are listed", async () => {
  await open(() => Response.json({ id: "", dry_run: true }));
  await until(() => expect(button("Run the example").disabled).toBe(false));
  expect(asked).toMatchObject([{ url: "/api/v1/jobs?dry_run=true", body: { name: "first example" } }]);
});

it("a refusal is the server's own sentence, once", async () => {
  const problem = { message: "No image `base/python:1` is here.", pointer: "/tasks/0/image", line: null, column: null, word: "", allowed: [], suggestion: "" };
  await open(() => refusal([problem, problem]));
  await until(() => expect(text()).toMatch(/^The example would not run now: No image base\/python:1 is here\. An admin can make this image\. Until then go on with step 2\.$/));
  expect(document.querySelectorAll("button")).toHaveLength(0);
});

it("what has nothing to do with the image leads nobody to make one", async () => {
  await open(() => refusal([{ message: "No machine has registered yet.", pointer: "/tasks/0", line: null, column: null, word: "", allowed: [], suggestion: "" }]));
  await until(() => expect(text()).toBe("The example would not run now: No machine has registered yet. Until then go on with step 2."));
});
