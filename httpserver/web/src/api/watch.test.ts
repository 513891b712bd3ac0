import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { BEAT_MS, type FromHub, Hub } from "./hub";
import { Watch } from "./watch";

type Way = "answers" | "refuses" | "html" | "hangs";

let way: Way = "answers";
let calls: string[] = [];
let streams: ReadableStreamDefaultController<Uint8Array>[] = [];
/** A stream was ended by the page. */
let cut = false;

beforeEach(() => {
  vi.useFakeTimers();
  [way, calls, streams, cut] = ["answers", [], [], false];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    calls.push(url);
    if (way === "refuses") return Promise.reject(new TypeError("refused"));
    if (way === "html") return Promise.resolve(new Response("<h1>", { status: 403, headers: { "Content-Type": "text/html" } }));
    if (way === "hangs") return new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError"))));
    if (!url.endsWith("/events")) return Promise.resolve(Response.json({}));
    init.signal?.addEventListener("abort", () => (cut = true));
    return Promise.resolve(new Response(new ReadableStream({ start: (to) => void streams.push(to) })));
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const later = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const alive = (): void => streams.at(-1)?.enqueue(new TextEncoder().encode(": alive\n\n"));

function tabs(hub: Hub, count: number): { away: (number | null)[]; say: (message: Parameters<Hub["heard"]>[1]) => void; kinds: string[] }[] {
  return Array.from({ length: count }, () => {
    const away: (number | null)[] = [];
    const kinds: string[] = [];
    const tab = hub.join({
      postMessage: (message: FromHub) => {
        kinds.push(message.kind);
        if (message.kind === "away") away.push(message.since);
      },
    });
    return { away, kinds, say: (message) => hub.heard(tab, message) };
  });
}

it("a part that hangs is no silence of the server: its stream says that it lives", async () => {
  const hub = new Hub();
  const [tab] = tabs(hub, 1);
  tab?.say({ kind: "listen", on: true });
  await later(100);
  // All other connections of the browser are held by calls that hang, so the question hangs as well.
  way = "hangs";
  for (let at = 0; at < 60; at += 10) {
    tab?.say({ kind: "silence", answered: 0 });
    alive();
    await later(10_000);
  }
  expect(tab?.away).toEqual([]);
});

it("a server that hangs is away since its last word, and all tabs are told that one moment", async () => {
  const hub = new Hub();
  const all = tabs(hub, 3);
  all[0]?.say({ kind: "listen", on: true });
  await later(15_000);
  alive();
  await later(1);
  const last = Date.now() - 1;
  way = "hangs";
  await later(31_000);
  expect(all.map((tab) => tab.away)).toEqual([[last], [last], [last]]);
  // Who comes later, too; a call of a tab that was answered meanwhile ends it for all.
  const [late] = tabs(hub, 1);
  expect(late?.away).toEqual([last]);
  all[1]?.say({ kind: "answer", at: Date.now() });
  expect([...all, late].map((tab) => tab?.away.at(-1))).toEqual([null, null, null, null]);
});

it("while it is away it is asked once for all tabs, ever more seldom, and lines come back with it", async () => {
  const hub = new Hub();
  const all = tabs(hub, 17);
  all.forEach((tab) => tab.say({ kind: "listen", on: true }));
  await later(100);
  way = "refuses";
  streams[0]?.error(new TypeError("cut"));
  await later(10);
  all.forEach((tab) => tab.say({ kind: "silence", answered: 0 }));
  await later(20);
  expect(all.every((tab) => tab.away.length === 1)).toBe(true);
  calls = [];
  await later(3000);
  expect(calls.length).toBeLessThanOrEqual(4);
  expect(new Set(calls)).toEqual(new Set(["/api/v1/me"]));
  calls = [];
  await later(60_000);
  expect(calls.length).toBeLessThanOrEqual(20);
  way = "answers";
  await later(7000);
  expect(all.every((tab) => tab.away.at(-1) === null)).toBe(true);
  expect(streams).toHaveLength(2);
});

it("a proxy's page is no answer, and one in passing is no end", async () => {
  const told: (number | null)[] = [];
  const watch = new Watch((since) => told.push(since));
  watch.streamed();
  way = "html";
  watch.suspect();
  await later(10);
  expect(told).toEqual([]);
  await later(1500);
  expect(told).toHaveLength(1);
  // Its stream lives on, but calls do not come through.
  watch.streamed();
  expect(told).toHaveLength(1);
  way = "answers";
  await later(5000);
  expect(told.at(-1)).toBeNull();
});

it("a tab that is closed or asleep is known by its silence, without any lock", async () => {
  const hub = new Hub();
  const [good, gone, closed] = tabs(hub, 3);
  gone?.say({ kind: "listen", on: true });
  closed?.say({ kind: "listen", on: true });
  await later(10);
  closed?.say({ kind: "bye" });
  for (let i = 0; i < 22; i += 1) {
    hub.beat();
    good?.say({ kind: "beat" });
    await later(BEAT_MS);
  }
  expect(good?.kinds).not.toContain("dropped");
  expect(gone?.kinds.at(-1)).toBe("dropped");
  expect(closed?.kinds).not.toContain("beat");
  // Nobody listens any more: the line is let go of.
  expect(cut).toBe(true);
});

it("a hub that nobody sees holds no line and asks for nothing, and goes on where it was", async () => {
  const hub = new Hub();
  const [tab] = tabs(hub, 1);
  tab?.say({ kind: "listen", on: true });
  await later(10);
  hub.sleep();
  calls = [];
  tab?.say({ kind: "silence", answered: 0 });
  await later(60_000);
  expect([calls, tab?.away]).toEqual([[], []]);
  hub.wake();
  await later(10);
  expect(calls).toEqual(["/api/v1/events"]);
});
