import { afterEach, expect, it, vi } from "vitest";

import { type Drawn, drawn, until } from "../testing";
import { Help } from "./help";

let page: Drawn;
const open = async (answer: () => Response, wide = true): Promise<void> => {
  vi.stubGlobal("fetch", async () => answer());
  vi.stubGlobal("scrollTo", () => undefined);
  vi.stubGlobal("matchMedia", () => ({ matches: wide, addEventListener: () => undefined, removeEventListener: () => undefined }));
  page = await drawn(<Help name="states" />);
};
const markdown = (text: string) => (): Response => new Response(text, { headers: { "Content-Type": "text/markdown" } });
const topics = (): HTMLDetailsElement | null => document.querySelector("nav details");

afterEach(async () => {
  await page.close();
  vi.unstubAllGlobals();
});

it("notes for those who write the documentation are not shown", async () => {
  await open(markdown("# States\n\n<!-- Written by a script: never edit. -->\n\nFor people. <!-- nor here -->\n\n`<!-- code -->`\n"));
  await until(() => expect(document.querySelector("article")?.textContent).toContain("For people."));
  expect(document.querySelector("article")?.textContent?.replace(/\s+/g, " ").trim()).toBe("States For people. <!-- code -->");
});

it("the topics stand open beside the text, and folded above it where there is no room", async () => {
  await open(markdown("# States"));
  expect(topics()?.open).toBe(true);
  await page.close();
  await open(markdown("# States"), false);
  expect(topics()?.open).toBe(false);
  expect(topics()?.querySelectorAll("li")).toHaveLength(20);
});

it("a page that is not there is told without a wrong promise", async () => {
  await open(() => new Response("", { status: 404 }));
  await until(() => expect(document.querySelector("article")?.textContent).toContain("There is no such page of the documentation."));
  expect(document.querySelector("article")?.textContent).not.toContain("those that there are");
});
