import { afterEach, expect, it, vi } from "vitest";

import { type Batch, batches, dropFiles, pauseFiles, resumeFiles, settleTaken, startFiles } from "./file-uploads";

const item = (path: string, text = "x") => ({ path, file: new File([text], path) });
const batch = (): Batch => {
  const [first] = batches.value;
  if (first === undefined) throw new Error("no batch");
  return first;
};
const problem = (status: number, slug: string, detail: string): Response =>
  new Response(JSON.stringify({ detail, slug, title: "", errors: [] }), { status, headers: { "Content-Type": "application/problem+json" } });

afterEach(() => {
  for (const b of batches.value) dropFiles(b.key);
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("sends few at once, all of them, under their exact names", async () => {
  let now = 0;
  let most = 0;
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 1));
    sent.push(address.split("?")[0] ?? "");
    now -= 1;
    return new Response("{}", { status: 201 });
  });
  startFiles(
    "anna",
    "my%20data",
    Array.from({ length: 20 }, (_, i) => item(`sub/ü ${i}`)),
    () => undefined,
  );
  await vi.waitFor(() => expect(batch().state).toBe("ended"));
  expect(batch()).toMatchObject({ done: 20, failed: [], taken: [], active: [] });
  expect(most).toBe(4);
  expect(sent).toHaveLength(20);
  expect(sent).toContain("/api/v1/files/my%20data/sub/%C3%BC%207");
});

it("asks about taken names, and replaces only then", async () => {
  const overwritten: string[] = [];
  vi.stubGlobal("fetch", (address: string) => {
    if (address.includes("overwrite=true")) overwritten.push(address);
    const taken = address.includes("/b?") && !address.includes("overwrite=true");
    return Promise.resolve(taken ? problem(409, "conflict", "b is there already.") : new Response("{}", { status: 201 }));
  });
  startFiles("anna", "", [item("a"), item("b")], () => undefined);
  await vi.waitFor(() => expect(batch().state).toBe("ended"));
  expect(batch().taken.map((t) => t.path)).toEqual(["b"]);
  expect(overwritten).toEqual([]);
  settleTaken(batch().key, true);
  await vi.waitFor(() => expect(batch()).toMatchObject({ state: "ended", done: 2, taken: [] }));
  expect(overwritten).toHaveLength(1);
});

it("shows what a person did before their next click", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(problem(409, "conflict", "a is there already.")));
  startFiles("anna", "", [item("a")], () => undefined);
  expect(batches.snapshot()).toMatchObject([{ state: "sending" }]);
  await vi.waitFor(() => expect(batches.snapshot()).toMatchObject([{ state: "ended", taken: [{ path: "a" }] }]));
  settleTaken(batch().key, false);
  expect(batches.snapshot()).toMatchObject([{ taken: [] }]);
  dropFiles(batch().key);
  expect(batches.snapshot()).toEqual([]);
});

it("stops for all when there is no room, and goes on when told", async () => {
  let full = true;
  vi.stubGlobal("fetch", () =>
    Promise.resolve(full ? problem(507, "no-space", "Your space is full.") : new Response("{}", { status: 201 })),
  );
  startFiles(
    "anna",
    "",
    Array.from({ length: 9 }, (_, i) => item(`f${i}`)),
    () => undefined,
  );
  await vi.waitFor(() => expect(batch()).toMatchObject({ state: "paused", trouble: "Your space is full.", failed: [], active: [] }));
  full = false;
  resumeFiles(batch().key);
  await vi.waitFor(() => expect(batch()).toMatchObject({ state: "ended", done: 9 }));
});

it("waits out a server that is away", async () => {
  vi.useFakeTimers();
  let away = 3;
  vi.stubGlobal("fetch", () => (away-- > 0 ? Promise.reject(new TypeError("refused")) : Promise.resolve(new Response("{}", { status: 201 }))));
  startFiles("anna", "", [item("a")], () => undefined);
  await vi.advanceTimersByTimeAsync(400);
  expect(batch().trouble).toContain("goes on by itself");
  await vi.advanceTimersByTimeAsync(10_000);
  expect(batch()).toMatchObject({ state: "ended", done: 1, failed: [] });
});

it("a pause keeps what was on its way, and one refused file does not hold the others", async () => {
  const open: ((response: Response) => void)[] = [];
  vi.stubGlobal("fetch", (address: string, init: RequestInit) => {
    if (address.includes("/bad?")) return Promise.resolve(problem(422, "invalid", "Its name is too long."));
    return new Promise<Response>((resolve, reject) => {
      open.push(resolve);
      init.signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    });
  });
  startFiles("anna", "", [item("bad"), item("a"), item("b")], () => undefined);
  await vi.waitFor(() => expect([open.length, batch().failed.length]).toEqual([2, 1]));
  pauseFiles(batch().key);
  await vi.waitFor(() => expect(batch()).toMatchObject({ state: "paused", done: 0, active: [] }));
  expect(batch().failed.map((f) => f.sentence)).toEqual(["Its name is too long."]);
  resumeFiles(batch().key);
  await vi.waitFor(() => expect(open).toHaveLength(4));
  for (const answer of open.slice(2)) answer(new Response("{}", { status: 201 }));
  await vi.waitFor(() => expect(batch()).toMatchObject({ state: "ended", done: 2 }));
});
