/** One attempt's log as it comes; a cut connection is taken up again at the byte where it broke. */
import { ApiError, type LogLinePlace, type LogTimes, tellSignedOut, toApiError } from "./client";
import { type LogListener, type LogPlace, TAIL_BYTES } from "./log-place";
import { pause } from "./sse";

export type { LogListener, LogPlace, LogState } from "./log-place";

export function logUrl(place: LogPlace): string {
  const parts = [place.job, place.task, String(place.attempt), place.stream].map(encodeURIComponent);
  return `/api/v1/jobs/${parts[0]}/tasks/${parts[1]}/attempts/${parts[2]}/logs/${parts[3]}`;
}

/** Where the answer's first byte lies in the whole log. */
export function firstByte(response: Response): number | null {
  const range = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "");
  const own = response.headers.get("x-log-offset");
  if (range?.[1] !== undefined) return Number(range[1]);
  return own === null ? null : Number(own);
}

/** Some bytes of a log. `size`: of the whole, as it is now; null: not told. */
export interface LogPart {
  readonly data: Uint8Array;
  readonly offset: number;
  readonly size: number | null;
}

const sizeOf = (response: Response): number | null => {
  const size = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
  return size === undefined ? null : Number(size);
};

async function refusal(response: Response): Promise<ApiError> {
  if (response.status === 401) tellSignedOut();
  return toApiError(await response.json().catch(() => null), response.status);
}

/** The bytes from `start` to `end`, which is not among them; fewer where the log ends before, none where it is gone. */
export async function readLog(place: LogPlace, start: number, end: number, signal?: AbortSignal): Promise<LogPart> {
  const none = new Uint8Array(0);
  if (end <= start) return { data: none, offset: start, size: null };
  const headers = { Accept: "text/plain", Range: `bytes=${start}-${end - 1}` };
  const response = await fetch(logUrl(place), { signal: signal ?? null, headers });
  if (response.status === 416) return { data: none, offset: start, size: sizeOf(response) };
  if (!response.ok) throw await refusal(response);
  const data = new Uint8Array(await response.arrayBuffer());
  return { data, offset: firstByte(response) ?? start, size: sizeOf(response) };
}

/** How many bytes a log has; null: it is not there. */
export async function logSize(place: LogPlace, signal?: AbortSignal): Promise<number | null> {
  try {
    // A range of an empty log is none, which browsers write down as an error: its first line is always there.
    return (await findLine(place, { line: 1 }, signal)).size;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Where a line begins, by its number or by a byte that it has. */
export async function findLine(place: LogPlace, by: { line: number } | { offset: number }, signal?: AbortSignal): Promise<LogLinePlace> {
  const query = "line" in by ? `line=${by.line}` : `offset=${by.offset}`;
  const response = await fetch(`${logUrl(place)}/line?${query}`, { signal: signal ?? null });
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as LogLinePlace;
}

/** When so many bytes from `from` on came. */
export async function logTimes(place: LogPlace, from: number, length: number, signal: AbortSignal): Promise<LogTimes> {
  const response = await fetch(`${logUrl(place)}/times?offset=${from}&length=${length}`, { signal });
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as LogTimes;
}

/** `from`: the byte to begin at; null: the log's tail. */
export async function followLog(place: LogPlace, listener: LogListener, signal: AbortSignal, from: number | null = null): Promise<void> {
  let offset: number | null = from;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const query: string = offset === null ? `follow=true&tail=${TAIL_BYTES}` : `follow=true&offset=${offset}`;
      const response: Response = await fetch(`${logUrl(place)}?${query}`, { signal, headers: { Accept: "text/plain" } });
      if (response.status === 404) {
        listener.state("none");
        await pause(1500, signal);
        continue;
      }
      if (response.status === 416) {
        listener.state("ended");
        return;
      }
      if (!response.ok || response.body === null) throw toApiError(await response.json().catch(() => null), response.status);
      listener.state("live");
      const complete = response.headers.get("x-log-ended") === "true";
      const before: number | null = offset;
      let at: number = firstByte(response) ?? offset ?? 0;
      offset = at;
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        failures = 0;
        listener.bytes(value, at);
        at += value.byteLength;
        offset = at;
      }
      if (complete) {
        listener.state("ended");
        return;
      }
      // The attempt ended meanwhile, or a proxy or a stopping server closed the line: the next answer tells which.
      if (before === offset) await pause(1000, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status === 401) tellSignedOut();
      else if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
        listener.state("refused", error.message);
        return;
      }
      failures += 1;
      listener.state("reconnecting");
      await pause(Math.min(5000, 300 * 2 ** failures), signal);
    }
  }
}
