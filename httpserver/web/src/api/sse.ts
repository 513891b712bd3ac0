/** The event stream of the server, read by hand: a silence and an ended session are seen, which EventSource hides. */
import type { Connection } from "./connection-state";
import { isForeign } from "./foreign";

export interface ServerEvent {
  readonly name: string;
  /** JSON. */
  readonly data: string;
}

export interface EventSink {
  state(state: Connection): void;
  events(events: readonly ServerEvent[]): void;
  /** The session is over: nothing more comes. */
  signedOut(): void;
  /** Bytes came, also those that only say that the line stands. */
  heard?(): void;
}

/** Where a stream goes on that is opened anew. */
export interface StreamPlace {
  last: string;
}

/** The server says each 15 s that it lives. */
export const SILENCE_MS = 40_000;
const PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

/** The bytes of an answer as they come; a line without any for `SILENCE_MS` counts as cut. */
export async function readPieces(body: ReadableStream<Uint8Array>, piece: (data: Uint8Array) => void): Promise<void> {
  const reader = body.getReader();
  for (;;) {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("silence")), SILENCE_MS);
    });
    try {
      const { done, value } = await Promise.race([reader.read(), silence]);
      if (done) return;
      piece(value);
    } catch (error) {
      void reader.cancel().catch(() => undefined);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Makes events of text as it comes, cut anywhere. */
export class EventParser {
  private rest = "";
  private name = "";
  private data: string[] = [];
  /** Of the last event or comment: where to go on after a break. */
  id = "";

  push(text: string): ServerEvent[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    const found: ServerEvent[] = [];
    for (const line of lines) {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = line.slice(colon + 1).replace(/^ /, "");
      if (line === "") {
        if (this.data.length > 0) found.push({ name: this.name, data: this.data.join("\n") });
        this.name = "";
        this.data = [];
      } else if (field === "event") this.name = value;
      else if (field === "data") this.data.push(value);
      else if (field === "id") this.id = value;
    }
    return found;
  }
}

/** Until `signal` ends it, or the session is over. A line that breaks is taken up again where it broke. */
export async function readEvents(sink: EventSink, signal: AbortSignal, place: StreamPlace = { last: "" }): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(place.last === "" ? {} : { "Last-Event-ID": place.last }) };
      const response = await fetch("/api/v1/events", { headers, signal, cache: "no-store" });
      if (isForeign(response)) throw new Error(String(response.status));
      if (response.status === 401) {
        sink.state("broken");
        sink.signedOut();
        return;
      }
      if (!response.ok || response.body === null) throw new Error(String(response.status));
      const parser = new EventParser();
      const text = new TextDecoder();
      sink.state("live");
      await readPieces(response.body, (data) => {
        failures = 0;
        sink.heard?.();
        const events = parser.push(text.decode(data, { stream: true }));
        place.last = parser.id || place.last;
        if (events.length > 0) sink.events(events);
      });
    } catch {
      // Away, or cut: again.
    }
    if (signal.aborted) return;
    sink.state(failures === 0 ? "connecting" : "broken");
    await pause(Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** failures), signal);
    failures += 1;
  }
}
