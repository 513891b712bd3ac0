import { afterEach, expect, it, vi } from "vitest";

import { SILENCE_MS, api, ask, askJson } from "./client";
import { noteAnswer } from "./reach";

afterEach(async () => {
  noteAnswer();
  await Promise.resolve();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A server that takes a call and never answers. */
function silent(): () => number {
  let calls = 0;
  vi.stubGlobal("fetch", (asked: Request | string, init: RequestInit) => {
    // Whether the server is there at all is asked as well.
    if (asked !== "/api/v1/me") calls += 1;
    return new Promise((_resolve, reject) => {
      init.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    });
  });
  return () => calls;
}

it("a call into silence ends in a sentence, and is not sent twice", async () => {
  vi.useFakeTimers();
  const calls = silent();
  const said = Promise.allSettled([
    askJson("GET", "/uploads/files"),
    askJson("DELETE", "/files/a"),
    api.POST("/api/v1/jobs/{job}/cancel", { params: { path: { job: "j" } }, baseUrl: "http://h" }),
  ]);
  await vi.advanceTimersByTimeAsync(SILENCE_MS + 10);
  const sentences = (await said).map((one) => (one.status === "rejected" ? String(one.reason) : ""));
  expect(sentences[0]).toContain("has not answered for 30 s. Check your connection");
  expect(sentences[1]).toContain("nobody knows whether this was done");
  expect(sentences[2]).toContain("nobody knows whether this was done");
  expect(calls()).toBe(3);
});

it("who breaks off a call is told nothing, and a file may take its time", async () => {
  vi.useFakeTimers();
  silent();
  const stop = new AbortController();
  const broken = ask("GET", "/queue", { signal: stop.signal }).catch((error: unknown) => error);
  stop.abort();
  expect((await broken) instanceof DOMException).toBe(true);
  let over = false;
  void ask("PUT", "/files/a", { body: "x", signal: new AbortController().signal }).catch(() => (over = true));
  await vi.advanceTimersByTimeAsync(10 * SILENCE_MS);
  expect(over).toBe(false);
});
