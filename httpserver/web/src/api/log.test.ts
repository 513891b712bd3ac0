import { afterEach, describe, expect, it, vi } from "vitest";

import { type LogState, followLog, logSize } from "./log";

const place = { job: "j", task: "a", attempt: 1, stream: "stdout" };

/** An answer of these pieces; `cut` breaks the line after them. */
function answer(pieces: string[], { offset = 0, ended = false, cut = false, status = 200 } = {}): Response {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece));
      else if (cut) controller.error(new TypeError("network error"));
      else controller.close();
    },
  });
  return new Response(body, { status, headers: { "X-Log-Offset": String(offset), "X-Log-Ended": String(ended) } });
}

async function follow(answers: Response[]): Promise<{ text: string; states: LogState[]; asked: string[] }> {
  vi.useFakeTimers();
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(url.split("?")[1] ?? "");
    const next = answers.shift();
    return next === undefined ? Promise.reject(new TypeError("no answer")) : Promise.resolve(next);
  });
  let text = "";
  let end = 0;
  const states: LogState[] = [];
  const done = followLog(
    place,
    {
      bytes(data, offset) {
        if (text !== "") expect(offset).toBe(end);
        text += new TextDecoder().decode(data);
        end = offset + data.byteLength;
      },
      state: (s) => states.push(s),
    },
    new AbortController().signal,
  );
  await vi.runAllTimersAsync();
  await done;
  return { text, states, asked };
}

describe("followLog", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("goes on where a cut line broke, no byte twice", async () => {
    const got = await follow([
      answer(["1\n", "2\n"], { offset: 100, cut: true }),
      answer(["3\n"], { offset: 104, cut: true }),
      answer(["4\n"], { offset: 106, ended: true }),
    ]);
    expect(got.text).toBe("1\n2\n3\n4\n");
    expect(got.asked).toEqual(["follow=true&tail=524288", "follow=true&offset=104", "follow=true&offset=106"]);
    expect(got.states.at(-1)).toBe("ended");
  });

  it("does not take a line closed politely for the end", async () => {
    const got = await follow([answer(["1\n"]), answer([], { offset: 2 }), answer(["2\n"], { offset: 2, ended: true })]);
    expect(got.text).toBe("1\n2\n");
    expect(got.states.at(-1)).toBe("ended");
  });

  it("waits for a log that is not there yet", async () => {
    const got = await follow([answer([], { status: 404 }), answer(["x"], { ended: true })]);
    expect(got.text).toBe("x");
    expect(got.states[0]).toBe("none");
  });

  it("tells a refusal and asks no more", async () => {
    const got = await follow([answer(['{"detail": "Only its owner may read it."}'], { status: 403 })]);
    expect(got.states.at(-1)).toBe("refused");
    expect(got.asked).toHaveLength(1);
  });
});

describe("the size of a log", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it.each([0, 7])("of %i bytes is asked for without a range, which an empty log does not have", async (size) => {
    const asked: [string, RequestInit | undefined][] = [];
    vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
      asked.push([url, init]);
      return Response.json({ line: 1, offset: 0, size, ended: true });
    });
    expect(await logSize(place)).toBe(size);
    expect(asked.map(([url]) => url)).toEqual([expect.stringMatching(/logs\/stdout\/line\?line=1$/)]);
    expect(new Headers(asked[0]?.[1]?.headers).has("range")).toBe(false);
  });

  it("of none is not known", async () => {
    vi.stubGlobal("fetch", async () => Response.json({ detail: "There is none." }, { status: 404 }));
    expect(await logSize(place)).toBeNull();
  });
});
