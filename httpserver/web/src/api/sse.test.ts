import { afterEach, describe, expect, it, vi } from "vitest";

import { EventParser, SILENCE_MS, type ServerEvent, readEvents } from "./sse";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Pieces; then the line is closed, cut, or silent. */
function answer(pieces: string[], end: "closed" | "cut" | "silent" = "closed", status = 200): Response {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece !== undefined) controller.enqueue(bytes(piece));
      else if (end === "cut") controller.error(new TypeError("network error"));
      else if (end === "closed") controller.close();
      else return new Promise(() => undefined);
      return undefined;
    },
  });
  return new Response(body, { status });
}

describe("the event stream", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("is the same wherever its pieces are cut", () => {
    const text = 'retry: 2000\n\nevent: job\nid: e-1\ndata: {"id":"ü"}\n\n: still here\nid: e-2\n\nevent: reset\ndata: {}\n\n';
    for (let at = 0; at < text.length; at += 1) {
      const parser = new EventParser();
      const found = [...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))];
      expect(found).toEqual([
        { name: "job", data: '{"id":"ü"}' },
        { name: "reset", data: "{}" },
      ]);
      expect(parser.id).toBe("e-2");
    }
  });

  it("goes on where it broke, notices a silence, and ends with the session", async () => {
    vi.useFakeTimers();
    const answers = [
      answer(["event: job\nid: e-1\ndata: 1\n\n"], "cut"),
      answer(["event: job\nid: e-2\ndata: 2\n\n"], "silent"),
      null,
      null,
      answer(["event: job\nid: e-3\ndata: 3\n\n"]),
      answer([], "closed", 401),
    ];
    const asked: (string | null)[] = [];
    vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
      asked.push(new Headers(init.headers).get("last-event-id"));
      const next = answers.shift();
      return next ? Promise.resolve(next) : Promise.reject(new TypeError("away"));
    });
    const events: ServerEvent[] = [];
    const states: string[] = [];
    const over = readEvents(
      { state: (s) => states.push(s), events: (some) => events.push(...some), signedOut: () => states.push("signed out") },
      new AbortController().signal,
    );
    await vi.advanceTimersByTimeAsync(2 * SILENCE_MS);
    await over;
    expect(events.map((event) => event.data)).toEqual(["1", "2", "3"]);
    expect(asked).toEqual([null, "e-1", "e-2", "e-2", "e-2", "e-3"]);
    expect(states).toEqual(["live", "connecting", "live", "connecting", "broken", "broken", "live", "connecting", "broken", "signed out"]);
  });
});
