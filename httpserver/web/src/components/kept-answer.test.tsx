import { useQuery } from "@tanstack/react-query";
import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { askJson, isFinal, toApiError } from "../api/client";
import { tellAway } from "../api/away";
import { awaySince, noteAnswer, onBack } from "../api/reach";
import { type Drawn, drawn, until } from "../testing";
import { AwayBanner, Trouble, shows } from "./kept-answer";

let page: Drawn;
let answer: () => Promise<Response>;
const json = (value: unknown, status = 200, type = "application/json"): Promise<Response> =>
  Promise.resolve(new Response(JSON.stringify(value), { status, headers: { "Content-Type": type } }));
const problem = (status: number, detail: string) => (): Promise<Response> => json({ status, detail, title: "", slug: "some" }, status, "application/problem+json");
const nobody = (): Promise<Response> => Promise.reject(new TypeError("refused"));
const gateway = (): Promise<Response> => Promise.resolve(new Response("<h1>502</h1>", { status: 502, headers: { "Content-Type": "text/html" } }));

function View() {
  const list = useQuery({ queryKey: ["list"], queryFn: () => askJson<number[]>("GET", "/datasets") });
  return (
    <>
      <AwayBanner />
      <Trouble of={list} />
      {list.data !== undefined && shows(list) && <p>rows: {JSON.stringify(list.data)}</p>}
    </>
  );
}

const text = (): string => document.body.textContent ?? "";
const again = (): Promise<void> => act(() => page.client.invalidateQueries());

beforeEach(async () => {
  vi.stubGlobal("fetch", () => answer());
  answer = () => json([1, 2]);
  page = await drawn(<View />);
  await until(() => expect(text()).toContain("rows: [1,2]"));
});

afterEach(async () => {
  noteAnswer();
  await page.close();
  vi.unstubAllGlobals();
});

it.each([
  ["nobody listens", nobody],
  ["a proxy answers in its place", gateway],
  ["a sign-in page of somebody else answers", () => Promise.resolve(new Response("<p>", { headers: { "Content-Type": "text/html" } }))],
])("what is shown stays while %s, and one banner says since when", async (_, away) => {
  const told = vi.fn();
  const stop = onBack(told);
  answer = away;
  await again();
  await until(() => expect(text()).toMatch(/Headway does not answer since .* UTC.*; what you see is from then/));
  expect(text()).toContain("rows: [1,2]");
  expect(document.querySelectorAll("[role=alert], [role=status]")).toHaveLength(1);
  expect(told).not.toHaveBeenCalled();
  answer = () => json([3]);
  await until(() => expect(awaySince.value).toBeNull());
  expect(told).toHaveBeenCalledOnce();
  await again();
  await until(() => expect(text()).toBe("rows: [3]"));
  stop();
});

it("a part alone that is not answered says so at its place, with its age", async () => {
  answer = problem(503, "TaskManager does not answer.");
  await again();
  await until(() => expect(text()).toMatch(/TaskManager does not answer\. What you see is from .* UTC.*\(0 s ago\)\. Try againrows: \[1,2\]/));
  expect(awaySince.value).toBeNull();
});

it("a part that hangs says so at its place while the server answers", async () => {
  let asked = 0;
  vi.stubGlobal("fetch", (url: string) => (url === "/api/v1/me" ? json({}) : ((asked += 1), nobody())));
  await again();
  await until(() => expect(text()).toMatch(/does not answer.* What you see is from .*Try againrows: \[1,2\]/));
  expect(document.querySelector(".away-banner")).toBeNull();
  expect(asked).toBe(1);
});

it("while the server is away no tab asks it: the hub does", async () => {
  const urls: string[] = [];
  vi.stubGlobal("fetch", (url: string) => (urls.push(url), nobody()));
  await again();
  await until(() => expect(document.querySelector(".away-banner")).not.toBeNull());
  urls.length = 0;
  await again();
  await again();
  expect(urls.filter((url) => url !== "/api/v1/me")).toEqual([]);
});

it("a tab that nobody sees asks anew once it is seen", async () => {
  const told = vi.fn();
  const stop = onBack(told);
  const hidden = (value: boolean): unknown => Object.defineProperty(document, "hidden", { value, configurable: true });
  await act(async () => tellAway(Date.now()));
  hidden(true);
  await act(async () => tellAway(null));
  expect(told).not.toHaveBeenCalled();
  hidden(false);
  document.dispatchEvent(new Event("visibilitychange"));
  document.dispatchEvent(new Event("visibilitychange"));
  expect(told).toHaveBeenCalledOnce();
  stop();
});

it("what the server says to be gone is not shown any more", async () => {
  answer = problem(404, "It was deleted.");
  await again();
  await until(() => expect(text()).toBe("It was deleted. Try again"));
});

it("only the server itself can say that", () => {
  expect(isFinal(toApiError({ detail: "gone", title: "", slug: "not-found" }, 404))).toBe(true);
  expect(isFinal(toApiError(null, 404))).toBe(false);
  expect(isFinal(toApiError({ detail: "slow down", title: "", slug: "too-many" }, 429))).toBe(false);
});
