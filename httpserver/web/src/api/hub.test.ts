import { afterEach, expect, it, vi } from "vitest";

import { type FromHub, Hub, type TabPort } from "./hub";

/** A tab that notes what it is told. */
class Told implements TabPort {
  readonly messages: FromHub[] = [];
  postMessage = (message: FromHub): void => void this.messages.push(message);
  events = (): string[] => this.messages.flatMap((m) => (m.kind === "events" ? m.events.map((event) => event.name) : []));
  state = (): string | undefined => this.messages.flatMap((m) => (m.kind === "connection" ? [m.connection.state] : [])).at(-1);
}

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("all tabs share one line, which lasts as long as one of them and one session", async () => {
  vi.useFakeTimers();
  const lines: { open: boolean; say: (text: string) => void; close: () => void }[] = [];
  let status = 200;
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    if (status !== 200) return Promise.resolve(new Response("{}", { status }));
    const body = new ReadableStream<Uint8Array>({
      start: (to) => {
        const line = { open: true, say: (text: string) => to.enqueue(new TextEncoder().encode(text)), close: () => to.close() };
        lines.push(line);
        init.signal?.addEventListener("abort", () => (line.open = false));
      },
    });
    return Promise.resolve(new Response(body));
  });
  const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1000);
  const open = (): number => lines.filter((line) => line.open).length;
  const hub = new Hub();
  const [one, two] = [new Told(), new Told()];
  const first = hub.join(one);
  hub.heard(first, { kind: "listen", on: true });
  await settled();
  lines[0]?.say("event: reset\ndata: {}\n\nevent: job\ndata: 1\n\n");
  await settled();
  // Who comes later may have loaded what is older than the line.
  const second = hub.join(two);
  hub.heard(second, { kind: "listen", on: true });
  lines[0]?.say("event: job\ndata: 2\n\n");
  await settled();
  expect([one.events(), two.events()]).toEqual([["reset", "job", "job"], ["reset", "job"]]);
  expect([one.state(), two.state(), lines.length]).toEqual(["live", "live", 1]);
  // Another account: its own line.
  hub.account(true);
  await settled();
  expect([lines.length, open()]).toEqual([2, 1]);
  hub.leave(first);
  expect(open()).toBe(1);
  // The session is over: all hear it, and nothing is asked for until somebody signs in.
  status = 401;
  lines[1]?.close();
  await settled();
  expect(two.messages.at(-1)).toEqual({ kind: "signed out" });
  status = 200;
  await settled();
  expect([lines.length, two.state()]).toEqual([2, "broken"]);
  hub.account(true);
  await settled();
  expect([lines.length, two.state()]).toEqual([3, "live"]);
  hub.leave(second);
  expect(lines[2]?.open).toBe(false);
});
