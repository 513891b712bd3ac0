import { afterEach, expect, it, vi } from "vitest";

import { BEAT_MS, type FromHub, Hub, type ToHub } from "./hub";

/** A shared worker with a hub, or one that never answers; closing the tab's end is seen by nobody. */
class FakeWorker {
  static readonly hubs: Hub[] = [];
  static works = true;
  static made = 0;
  onerror: unknown = null;
  readonly port: { onmessage: ((event: { data: FromHub }) => void) | null; postMessage: (m: ToHub) => void; close: () => void; addEventListener: () => void };

  constructor() {
    FakeWorker.made += 1;
    const hub = FakeWorker.hubs.at(-1);
    const out: FromHub[] = [];
    const port: FakeWorker["port"] = { onmessage: null, postMessage: () => undefined, close: () => undefined, addEventListener: () => undefined };
    this.port = port;
    if (hub === undefined || !FakeWorker.works) return;
    const tab = hub.join({
      postMessage: (m) => {
        out.push(m);
        queueMicrotask(() => out.splice(0).forEach((data) => FakeWorker.works && port.onmessage?.({ data })));
      },
    });
    port.postMessage = (m) => FakeWorker.works && hub.heard(tab, m);
  }
}

const sink = () => ({ connection: vi.fn(), events: vi.fn(), signedOut: vi.fn() });
const later = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

let open = 0;
let asked: string[] = [];
function server(): void {
  [open, asked] = [0, []];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    asked.push(url);
    if (url.endsWith("/me")) return Promise.resolve(Response.json({}));
    open += 1;
    return Promise.resolve(
      new Response(
        new ReadableStream({
          start(to) {
            if (!url.endsWith("/events")) to.enqueue(new TextEncoder().encode("ab"));
            init.signal?.addEventListener("abort", () => {
              open -= 1;
              to.error(new DOMException("", "AbortError"));
            });
          },
        }),
        { headers: { "X-Log-Offset": new URL(url, "http://h").searchParams.get("offset") ?? "0" } },
      ),
    );
  });
}

const see = (seen: boolean): void => {
  Object.defineProperty(document, "hidden", { value: !seen, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};

afterEach(() => {
  see(true);
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.resetModules();
});

it("plain http has no Web Locks: the worker is joined all the same, and replaced when it falls silent", async () => {
  vi.useFakeTimers();
  server();
  expect((navigator as { locks?: unknown }).locks).toBeUndefined();
  vi.stubGlobal("SharedWorker", FakeWorker);
  FakeWorker.hubs.push(new Hub());
  const beats = setInterval(() => FakeWorker.hubs.at(-1)?.beat(), BEAT_MS);
  const { listenTo } = await import("./link");
  const away = vi.fn();
  (await import("./away")).onAway(away);
  const told = sink();
  const stop = listenTo(told);
  await later(10 * BEAT_MS);
  expect([FakeWorker.made, open]).toEqual([1, 1]);
  expect(told.connection.mock.lastCall?.[0]).toMatchObject({ state: "live" });
  FakeWorker.works = false;
  await later(1);
  FakeWorker.hubs.push(new Hub());
  setTimeout(() => (FakeWorker.works = true), 2 * BEAT_MS);
  await later(6 * BEAT_MS);
  expect(FakeWorker.made).toBe(2);
  expect(away).toHaveBeenLastCalledWith(null);
  expect(told.connection.mock.lastCall?.[0]).toMatchObject({ state: "live" });
  stop();
  clearInterval(beats);
});

it("without shared workers only a tab that is seen holds lines, and goes on where it was", async () => {
  vi.useFakeTimers();
  server();
  const { follow, listenTo } = await import("./link");
  const { onAway } = await import("./away");
  const away = vi.fn();
  onAway(away);
  const told = sink();
  const stop = listenTo(told);
  const log = { bytes: vi.fn(), state: vi.fn() };
  const end = new AbortController();
  void follow({ job: "j", task: "t", attempt: 1, stream: "stdout" }, log, end.signal, 5);
  await later(100);
  expect(open).toBe(2);
  see(false);
  await later(60_000);
  expect(open).toBe(0);
  asked = [];
  see(true);
  await later(100);
  expect(open).toBe(2);
  expect(asked.sort()).toEqual(["/api/v1/events", "/api/v1/jobs/j/tasks/t/attempts/1/logs/stdout?follow=true&offset=7"]);
  expect(told.connection.mock.lastCall?.[0]).toMatchObject({ state: "live" });
  expect(away).not.toHaveBeenCalled();
  end.abort();
  stop();
  await later(10);
  expect(open).toBe(0);
});
