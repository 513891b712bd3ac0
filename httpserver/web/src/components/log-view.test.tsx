import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { LogStream } from "../api/client";
import { type Drawn, button, drawn, press, until } from "../testing";
import { JobGone } from "./job-notes";
import { LogTabs } from "./log-tabs";
import { LogView } from "./log-view";

const place = { job: "j1", task: "t", attempt: 1, stream: "stderr" };
const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

/** Logs that have ended, by their streams, as the server gives them out. */
function serve(logs: { [stream: string]: Uint8Array<ArrayBuffer> | undefined }): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    asked.push(url);
    const at = new URL(url, "http://h");
    const [, stream = "", line] = /logs\/(\w+)(\/line)?$/.exec(at.pathname) ?? [];
    const log = logs[stream];
    if (log === undefined) return new Response('{"detail": "There is no such attempt."}', { status: 404 });
    if (line) {
      const begins = [0];
      for (let end = log.indexOf(10); end >= 0; end = log.indexOf(10, end + 1)) begins.push(end + 1);
      const number = Number(at.searchParams.get("line")) || begins.filter((b) => b <= Number(at.searchParams.get("offset"))).length;
      const found = Math.min(number, begins.length);
      return Response.json({ line: found, offset: begins[found - 1], size: log.byteLength, ended: true });
    }
    const range = /bytes=(\d+)-(\d+)/.exec(new Headers(init?.headers).get("range") ?? "");
    if (range) {
      const part = log.slice(Number(range[1]), Number(range[2]) + 1);
      const headers = { "Content-Range": `bytes ${part.byteLength ? `${range[1]}-${range[2]}` : "*"}/${log.byteLength}` };
      return new Response(part.byteLength ? part : null, { status: part.byteLength ? 206 : 416, headers });
    }
    const tail = at.searchParams.get("tail");
    const start = tail === null ? Number(at.searchParams.get("offset")) : Math.max(0, log.byteLength - Number(tail));
    return new Response(log.slice(start), { headers: { "X-Log-Offset": String(start), "X-Log-Ended": "true" } });
  });
  return asked;
}

let page: Drawn | undefined;
beforeEach(() => window.history.replaceState(null, "", "/jobs/j1/t"));
afterEach(async () => {
  await page?.close();
  page = undefined;
  vi.unstubAllGlobals();
});
const shown = (): string => document.querySelector(".log-text")?.textContent ?? "";

describe("a log", () => {
  it("is text and colours, never markup", async () => {
    serve({ stderr: bytes("\u001b[31m<img src=x onerror=alert(1)>\u001b[0m\n\u202etxt\n\u001b]8;;javascript:alert(1)\u0007link\n") });
    page = await drawn(<LogView place={place} />);
    await until(() => expect(shown()).toContain("link"));
    expect(shown()).toContain("<img src=x onerror=alert(1)>");
    expect(shown()).toContain("\ufffdtxt");
    expect(document.querySelector(".log-text img, .log-text a")).toBeNull();
    expect(document.querySelector<HTMLElement>(".log-text .line span")?.style.color).not.toBe("");
  });

  it("says that it is gone where it once had something", async () => {
    serve({ stderr: bytes("") });
    page = await drawn(<LogView place={place} expected={2048} />);
    await until(() => expect(shown()).toContain("had 2.0 KiB and is not there any more"));
  });

  it("opens at the line of the address, and makes one of a line", async () => {
    serve({ stderr: bytes(Array.from({ length: 50_000 }, (_, i) => `this is line ${i + 1} ${" ".repeat(80)}\n`).join("")) });
    window.history.replaceState(null, "", "/jobs/j1/t?log=stderr#L20000");
    page = await drawn(<LogView place={place} />);
    await until(() => expect(document.querySelector(".line.marked")?.textContent).toBe(`this is line 20000 ${" ".repeat(80)}\n`));
    expect(document.querySelector<HTMLElement>(".line.marked")?.dataset["n"]).toBe("20000");
    await press(button("Start"));
    await until(() => expect(document.querySelector(".line")?.textContent).toContain("this is line 1 "));
    expect(window.location.hash).toBe("");
    await press(button("End"));
    await until(() => expect([...document.querySelectorAll(".line")].at(-1)?.textContent).toContain("this is line 50000"));
    await until(() => expect([...document.querySelectorAll<HTMLElement>(".line")].at(-1)?.dataset["n"]).toBe("50000"));
  });

  it("has the times of its lines where they are wanted, blank where nobody knows, and keeps that", async () => {
    serve({ stderr: bytes("early\none\ntwo\n") });
    const logs = fetch;
    const asked: string[] = [];
    vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
      if (!url.includes("/times?")) return logs(url, init);
      asked.push(url);
      return Response.json({ offsets: [0, 6, 10], at: [null, 1_793_000_000.123, 1_792_000_000], end: 14, ended: true });
    });
    page = await drawn(<LogView place={place} />);
    await until(() => expect(shown()).toContain("two"));
    expect([asked, document.querySelector(".at")]).toEqual([[], null]);
    const times = (): (string | null)[] => [...document.querySelectorAll(".line .at")].map((one) => one.getAttribute("datetime"));
    const box = [...document.querySelectorAll("label")].find((one) => one.textContent?.includes("times"))?.querySelector("input");
    await press(box as HTMLElement);
    // A clock that was put back shows as it was.
    await until(() => expect(times()).toEqual([null, "2026-10-26T07:33:20.123Z", "2026-10-14T17:46:40.000Z"]));
    expect(document.querySelector(".line")?.textContent).toBe("early\n");
    expect(asked).toEqual(["/api/v1/jobs/j1/tasks/t/attempts/1/logs/stderr/times?offset=0&length=14"]);
    await page.close();
    page = await drawn(<LogView place={place} />);
    await until(() => expect(times()).toHaveLength(3));
    localStorage.clear();
  });

  it("that shrank below the line of the address is shown as far as it goes", async () => {
    serve({ stderr: bytes("one\ntwo\n") });
    window.history.replaceState(null, "", "/jobs/j1/t#L900");
    page = await drawn(<LogView place={place} />);
    await until(() => expect(document.body.textContent).toContain("there is no line 900"));
    expect(shown()).toContain("two");
  });
});

describe("the logs of a task", () => {
  it("begin with the one that holds the end of a failure, and mark what was not seen", async () => {
    serve({ stdout: bytes("epoch 1\n"), stderr: bytes("Traceback\nValueError\n"), platform: bytes("started\n") });
    const attempt = { number: 1, state: "FAILED", ended_at: 5, stdout_bytes: 8, stderr_bytes: 21 } as never;
    const tabs = (chosen: LogStream | null): React.ReactNode => (
      <LogTabs job="j1" task="t" number={1} attempt={attempt} chosen={chosen} mayRead onChoose={() => undefined} />
    );
    page = await drawn(tabs(null));
    await until(() => expect(shown()).toContain("ValueError"));
    const tab = (name: string) => [...document.querySelectorAll<HTMLElement>('[role="tab"]')].find((one) => one.textContent?.includes(name));
    expect(tab("stderr")?.getAttribute("aria-selected")).toBe("true");
    expect(tab("stdout")?.textContent).toContain("●");
    expect(tab("stdout")?.textContent).toContain("8 B");
    await page.draw(tabs("stdout"));
    await until(() => expect(shown()).toContain("epoch 1"));
    expect(tab("stdout")?.textContent).not.toContain("●");
    expect(tab("stderr")?.textContent).not.toContain("●");
  });

  it("stay as they are where the job was deleted, and one that was not read says where it is", async () => {
    const asked = serve({ both: bytes("epoch 1\n"), stdout: bytes("epoch 1\n"), stderr: bytes(""), platform: bytes("started\n") });
    const attempt = { number: 1, state: "FAILED", ended_at: 5, stdout_bytes: 8, stderr_bytes: 0 } as never;
    const tabs = (gone: boolean, chosen: LogStream | null): React.ReactNode => (
      <JobGone value={gone}>
        <LogTabs job="j1" task="t" number={1} attempt={attempt} chosen={chosen} mayRead onChoose={() => undefined} />
      </JobGone>
    );
    page = await drawn(tabs(false, null));
    await until(() => expect(shown()).toContain("epoch 1"));
    serve({});
    await page.draw(tabs(true, null));
    const before = asked.length;
    await page.client.invalidateQueries();
    expect([shown(), asked.length]).toEqual(["epoch 1\n", before]);
    expect(document.querySelector(".log-state")?.textContent).toBe("deleted");
    await page.draw(tabs(true, "platform"));
    await until(() => expect(shown()).toBe("The job was deleted, and its logs with it."));
  });
});
