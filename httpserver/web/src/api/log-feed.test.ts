import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { LogFeed, MOST_LOGS } from "./log-feed";
import { FrameReader } from "./frames";
import type { LogState } from "./log-place";

const text = new TextDecoder();
const bytes = (some: string): Uint8Array => new TextEncoder().encode(some);
const place = (task: string) => ({ job: "j", task, attempt: 1, stream: "stdout" });

/** A server with logs that grow as a test says; it sends a tab what it has, in pieces of two bytes. */
class Server {
  readonly logs = new Map<string, string>();
  readonly asked: { task: string; tail?: number; offset?: number }[][] = [];
  readonly problems = new Map<string, number>();
  status = 200;
  /** What the whole call is refused with, in order. */
  readonly refusals: Response[] = [];
  private open: { controller: ReadableStreamDefaultController<Uint8Array>; list: { task: string }[]; at: number[] } | null = null;
  lines = 0;

  fetch = (_: string, init: RequestInit): Promise<Response> => {
    const list = (JSON.parse(String(init.body)) as { logs: { task: string; tail?: number; offset?: number }[] }).logs;
    this.asked.push(list);
    const refusal = this.refusals.shift();
    if (refusal !== undefined) return Promise.resolve(refusal);
    if (this.status !== 200) return Promise.resolve(Response.json({ detail: "Not so." }, { status: this.status }));
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const at = list.map((log) => log.offset ?? Math.max(0, (this.logs.get(log.task) ?? "").length - (log.tail ?? 0)));
        this.open = { controller, list, at };
        list.forEach((log, i) => {
          const status = this.problems.get(log.task);
          if (status !== undefined) this.frame({ kind: "problem", log: i, status, detail: "No." });
          else this.frame({ kind: "open", log: i, offset: at[i], ended: false });
        });
        this.send();
      },
    });
    this.lines += 1;
    init.signal?.addEventListener("abort", () => {
      this.lines -= 1;
      this.open = null;
    });
    return Promise.resolve(new Response(body));
  };

  private frame(head: object, data = ""): void {
    const whole = bytes(`${JSON.stringify(head)}\n${data}`);
    const step = Math.max(7, whole.length >> 4);
    for (let at = 0; at < whole.length; at += step) this.open?.controller.enqueue(whole.slice(at, at + step));
  }

  send(): void {
    this.open?.list.forEach((log, i) => {
      if (this.open === null || this.problems.has(log.task)) return;
      const from = this.open.at[i] ?? 0;
      const data = (this.logs.get(log.task) ?? "").slice(from);
      this.open.at[i] = from + data.length;
      if (data) this.frame({ kind: "bytes", log: i, offset: from, size: data.length }, data);
    });
  }

  grow(task: string, more: string): void {
    this.logs.set(task, (this.logs.get(task) ?? "") + more);
    this.send();
  }

  end(task: string): void {
    const at = this.open?.list.findIndex((log) => log.task === task) ?? -1;
    if (at >= 0) this.frame({ kind: "end", log: at });
  }

  cut(): void {
    this.open?.controller.error(new TypeError("network error"));
    this.open = null;
  }
}

/** What a tab has of a log, and that no byte came twice or was left out. */
class Reader {
  got = "";
  end: number | null = null;
  readonly states: LogState[] = [];
  bytes = (data: Uint8Array, offset: number): void => {
    if (this.end !== null) expect(offset).toBe(this.end);
    this.got += text.decode(data);
    this.end = offset + data.length;
  };
  state = (state: LogState): void => void this.states.push(state);
}

let server: Server;
beforeEach(() => {
  vi.useFakeTimers();
  server = new Server();
  vi.stubGlobal("fetch", server.fetch);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
const settled = (ms = 60): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

describe("the logs of a browser", () => {
  it("come over one line, and none is lost or doubled when others come, go, or the line breaks", async () => {
    const feed = new LogFeed(() => undefined);
    const [a, b] = [new Reader(), new Reader()];
    server.logs.set("a", "a1\n");
    feed.follow(place("a"), null, a);
    await settled();
    server.grow("a", "a2\n");
    await settled();
    const second = feed.follow(place("b"), 0, b);
    server.grow("a", "a3\n");
    server.grow("b", "b1\n");
    await settled();
    server.grow("a", "a4\n");
    server.grow("b", "b2\n");
    await settled();
    expect([a.got, b.got]).toEqual(["a1\na2\na3\na4\n", "b1\nb2\n"]);
    server.cut();
    server.grow("a", "a5\n");
    await settled(1000);
    expect(a.states.slice(-2)).toEqual(["reconnecting", "live"]);
    feed.leave(second);
    await settled();
    server.grow("a", "a6\n");
    server.grow("b", "b3\n");
    await settled();
    expect([a.got, b.got]).toEqual(["a1\na2\na3\na4\na5\na6\n", "b1\nb2\n"]);
    expect(server.lines).toBe(1);
    expect(server.asked.at(-1)).toEqual([{ ...place("a"), offset: 15 }]);
    server.end("a");
    await settled();
    expect(a.states.at(-1)).toBe("ended");
  });

  it("are asked for once when many tabs open together, but never put off for long", async () => {
    const feed = new LogFeed(() => undefined);
    for (let i = 0; i < 40; i += 1) {
      feed.follow(place(`t${i}`), null, new Reader());
      await settled(20);
    }
    await settled();
    expect(server.asked.at(-1)).toHaveLength(40);
    expect(server.asked.length).toBeLessThanOrEqual(3);
  });

  it("that are not there are looked for again, and refused ones are told", async () => {
    const feed = new LogFeed(() => undefined);
    const [a, b, c] = [new Reader(), new Reader(), new Reader()];
    server.problems.set("a", 404).set("b", 403).set("c", 416);
    feed.follow(place("a"), null, a);
    feed.follow(place("b"), null, b);
    feed.follow(place("c"), 9, c);
    await settled();
    expect([a.states, b.states, c.states]).toEqual([["none"], ["refused"], ["ended"]]);
    server.problems.delete("a");
    server.logs.set("a", "here\n");
    await settled(2000);
    expect(a.got).toBe("here\n");
    expect(server.asked.at(-1)).toHaveLength(1);
  });

  it("beyond what the server follows are refused in words", async () => {
    const feed = new LogFeed(() => undefined);
    const readers = Array.from({ length: MOST_LOGS + 1 }, () => new Reader());
    readers.forEach((reader, i) => feed.follow(place(`t${i}`), null, reader));
    await settled(600);
    expect(readers.filter((reader) => reader.states.includes("refused"))).toHaveLength(1);
    expect(server.asked.at(-1)).toHaveLength(MOST_LOGS);
  });

  it("stop at the end of the session, and go on after a sign-in", async () => {
    let over = 0;
    const feed = new LogFeed(() => (over += 1));
    const a = new Reader();
    server.status = 401;
    feed.follow(place("a"), 0, a);
    await settled(30_000);
    expect([over, server.asked.length]).toEqual([1, 1]);
    server.status = 200;
    server.logs.set("a", "x");
    feed.begin();
    await settled();
    expect(a.got).toBe("x");
  });

  it("outlive what somebody on the way says of the whole call", async () => {
    const feed = new LogFeed(() => expect.fail("nobody signed out"));
    const [a, b] = [new Reader(), new Reader()];
    const html = (status: number): Response => new Response("<h1>", { status, headers: { "Content-Type": "text/html" } });
    server.refusals.push(html(401), html(403), html(404), html(200), new Response("too large", { status: 413 }), Response.json({}, { status: 408 }));
    server.refusals.push(Response.json({ detail: "Not you.", title: "", slug: "forbidden" }, { status: 403 }));
    server.logs.set("a", "here\n").set("b", "there\n");
    feed.follow(place("a"), 0, a);
    feed.follow(place("b"), 0, b);
    await settled(30_000);
    expect([a.got, b.got, server.asked.length]).toEqual(["here\n", "there\n", 8]);
    expect(a.states).not.toContain("refused");
  });

  it("are refused one by one, where the server names one", async () => {
    const feed = new LogFeed(() => undefined);
    const [a, b] = [new Reader(), new Reader()];
    const errors = [{ pointer: "/logs/1/task", message: "No task has such a name." }];
    const headers = { "Content-Type": "application/problem+json" };
    server.refusals.push(new Response(JSON.stringify({ detail: "Wrong.", errors }), { status: 422, headers }));
    server.logs.set("a", "here\n");
    feed.follow(place("a"), 0, a);
    feed.follow(place("b"), 0, b);
    await settled(200);
    expect([a.got, a.states, b.states]).toEqual(["here\n", ["live"], ["refused"]]);
  });

  it("wait as long as the server asks, also when others come", async () => {
    const feed = new LogFeed(() => undefined);
    const a = new Reader();
    server.refusals.push(Response.json({ detail: "Too many." }, { status: 429, headers: { "Retry-After": "7" } }));
    server.logs.set("a", "here\n");
    feed.follow(place("a"), 0, a);
    await settled(1000);
    feed.follow(place("b"), 0, new Reader());
    await settled(5500);
    expect(server.asked).toHaveLength(1);
    await settled(1000);
    expect([a.got, server.asked.length]).toEqual(["here\n", 2]);
  });

  it("of a tab that is far behind wait for it, and hold up no other", async () => {
    const feed = new LogFeed(() => undefined);
    const [a, b] = [new Reader(), new Reader()];
    const slow = feed.follow(place("a"), 0, a);
    feed.follow(place("b"), 0, b);
    await settled();
    const much = "x".repeat(5 << 20);
    server.grow("a", much);
    await settled();
    server.grow("a", "y");
    server.grow("b", "b1\n");
    await settled();
    expect([a.got.length, b.got]).toEqual([much.length, "b1\n"]);
    expect(server.asked.at(-1)?.map((log) => log.task)).toEqual(["b"]);
    feed.took(slow, much.length);
    await settled();
    expect(a.got).toBe(`${much}y`);
  });
});

it("frames are the same wherever their pieces are cut", () => {
  const whole = bytes('{"kind":"open","log":0,"offset":5}\n{"kind":"bytes","log":0,"offset":5,"size":4}\n{}\n\n{"kind":"alive"}\n');
  for (let at = 0; at < whole.length; at += 1) {
    const reader = new FrameReader();
    const found = [...reader.push(whole.slice(0, at)), ...reader.push(whole.slice(at))];
    expect(found.map(({ frame, data }) => [frame.kind, text.decode(data)])).toEqual([
      ["open", ""],
      ["bytes", "{}\n\n"],
      ["alive", ""],
    ]);
  }
});
