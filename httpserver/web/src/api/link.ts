/** A tab's way to the hub of its browser; where there is none, a hub of its own while it is seen. */
import { tellAway } from "./away";
import { type ConnectionState, connectionAfter } from "./connection-state";
import { connection } from "./connection";
import { BEAT_MS, type FromHub, Hub, type Tab, type ToHub } from "./hub";
import hubUrl from "./hub-worker?worker&url";
import { followLog } from "./log";
import type { LogListener, LogPlace } from "./log-place";
import type { ServerEvent } from "./sse";

export interface PageSink {
  connection(state: ConnectionState): void;
  events(events: readonly ServerEvent[]): void;
  signedOut(): void;
}

/** A worker that has not answered by then is done without; a machine on which fifty tabs open at once needs a while. */
const WELCOME_MS = 10_000;
/** A hub that misses so many beats is gone. One that was only slow is joined again. */
const MOST_MISSED = 3;

interface Following {
  readonly listener: LogListener;
  readonly done: (end: "over" | "lost") => void;
}

interface WayToHub {
  postMessage(message: ToHub): void;
  close(): void;
}

class HubLine {
  private readonly sinks = new Set<PageSink>();
  private readonly logs = new Map<number, Following>();
  private next = 0;

  /** `own`: the hub is this tab's alone. */
  constructor(
    private readonly port: WayToHub,
    readonly own: boolean,
  ) {}

  heard(message: FromHub): void {
    if (message.kind === "away") tellAway(message.since);
    else if (message.kind === "connection") this.sinks.forEach((sink) => sink.connection(message.connection));
    else if (message.kind === "events") this.sinks.forEach((sink) => sink.events(message.events));
    else if (message.kind === "signed out") this.sinks.forEach((sink) => sink.signedOut());
    else if (message.kind === "bytes" || message.kind === "state") this.ofLog(message);
  }

  private ofLog(message: FromHub & { kind: "bytes" | "state" }): void {
    const { id } = message;
    const log = this.logs.get(id);
    if (log === undefined) return;
    if (message.kind === "bytes") {
      log.listener.bytes(message.data, message.offset);
      this.say({ kind: "took", id, offset: message.offset + message.data.byteLength });
      return;
    }
    log.listener.state(message.state, message.sentence);
    if (message.state === "ended" || message.state === "refused") this.end(id, "over");
  }

  say(message: ToHub): void {
    this.port.postMessage(message);
  }

  private end(id: number, how: "over" | "lost"): void {
    const log = this.logs.get(id);
    this.logs.delete(id);
    if (log === undefined) return;
    if (how === "over") this.say({ kind: "leave", id });
    log.done(how);
  }

  /** The worker is gone, or has given up this tab. */
  lost(): void {
    this.say({ kind: "bye" });
    this.port.close();
    [...this.logs.keys()].forEach((id) => this.end(id, "lost"));
    this.sinks.clear();
  }

  listen(sink: PageSink): () => void {
    this.sinks.add(sink);
    this.say({ kind: "listen", on: true });
    return () => {
      this.sinks.delete(sink);
      if (this.sinks.size === 0) this.say({ kind: "listen", on: false });
    };
  }

  follow(place: LogPlace, listener: LogListener, signal: AbortSignal, from: number | null): Promise<"over" | "lost"> {
    const id = (this.next += 1);
    return new Promise((done) => {
      this.logs.set(id, { listener, done });
      signal.addEventListener("abort", () => this.end(id, "over"));
      this.say({ kind: "follow", id, place, from });
    });
  }
}

let current: Promise<HubLine> | null = null;
const onLost = new Set<() => void>();

function line(): Promise<HubLine> {
  current ??= connect()
    .catch(() => null)
    .then((found) => found ?? ownHub());
  return current;
}

/** Says something to the hub. */
export const tell = (message: ToHub): unknown => line().then((hub) => hub.say(message));

/** Null: this browser has no shared workers, or this one did not start. */
async function connect(): Promise<HubLine | null> {
  if (typeof SharedWorker === "undefined") return null;
  // Its address has a hash of its content, so that tabs of two builds never meet.
  const worker = new SharedWorker(hubUrl, { type: "module", name: "headway" });
  const { port } = worker;
  const found = new HubLine(port, false);
  let missed = 0;
  let over = false;
  const lost = (): void => {
    if (over) return;
    over = true;
    clearInterval(beats);
    current = null;
    found.lost();
    // What it said of the server is not taken back any more: the next one finds out.
    tellAway(null);
    onLost.forEach((again) => again());
  };
  const beats = setInterval(() => {
    missed += 1;
    if (missed > MOST_MISSED) lost();
  }, BEAT_MS);
  const welcome = await new Promise<boolean>((resolve) => {
    setTimeout(() => resolve(false), WELCOME_MS);
    worker.onerror = () => resolve(false);
    port.onmessage = ({ data }: MessageEvent<FromHub>) => {
      missed = 0;
      if (data.kind === "welcome") resolve(true);
      else if (data.kind === "beat") found.say(data);
      else if (data.kind === "dropped") lost();
      else found.heard(data);
    };
  });
  if (!welcome) {
    over = true;
    clearInterval(beats);
    found.lost();
    return null;
  }
  // Newer browsers tell at once that the worker died.
  port.addEventListener("close", lost);
  window.addEventListener("pagehide", () => {
    if (!over) found.say({ kind: "bye" });
  });
  window.addEventListener("pageshow", ({ persisted }) => {
    if (persisted) lost();
  });
  return found;
}

/** In this tab. Nobody counts the lines of all tabs then, so only one that is seen holds any. */
function ownHub(): HubLine {
  const hub = new Hub();
  let tab: Tab | null = null;
  const found = new HubLine({ postMessage: (message) => tab !== null && hub.heard(tab, message), close: () => undefined }, true);
  const seen = (): void => {
    if (document.hidden) hub.sleep();
    else hub.wake();
  };
  seen();
  document.addEventListener("visibilitychange", seen);
  tab = hub.join({ postMessage: (message) => found.heard(message) });
  return found;
}

/** Events until the end is called; the sink hears of the connection as well. */
export function listenTo(sink: PageSink): () => void {
  const stop = new AbortController();
  let end = (): void => undefined;
  const start = async (): Promise<void> => {
    const hub = await line();
    if (!stop.signal.aborted) end = hub.listen(sink);
  };
  const again = (): void => {
    sink.connection(connectionAfter(connection.value, "connecting", Date.now()));
    void start();
  };
  onLost.add(again);
  void start();
  return () => {
    onLost.delete(again);
    stop.abort();
    end();
  };
}

/** Until the log has ended, is refused, or `signal` ends it. `from`: the byte to begin at; null: the log's tail. */
export async function follow(place: LogPlace, listener: LogListener, signal: AbortSignal, from: number | null = null): Promise<void> {
  let offset = from;
  const noting: LogListener = {
    bytes(data, at) {
      offset = at + data.byteLength;
      listener.bytes(data, at);
    },
    state: (state, sentence) => listener.state(state, sentence),
  };
  while (!signal.aborted) {
    const hub = await line();
    if (signal.aborted) return;
    if (hub.own) return followWhileSeen(place, noting, signal, () => offset);
    if ((await hub.follow(place, noting, signal, offset)) === "over") return;
    listener.state("reconnecting");
  }
}

/** A tab that nobody sees holds no line: it goes on at the byte that it has when it is seen. */
async function followWhileSeen(place: LogPlace, listener: LogListener, signal: AbortSignal, from: () => number | null): Promise<void> {
  let over = false;
  const noting: LogListener = {
    bytes: (data, at) => listener.bytes(data, at),
    state(state, sentence) {
      over ||= state === "ended" || state === "refused";
      listener.state(state, sentence);
    },
  };
  while (!over && !signal.aborted) {
    const seen = new AbortController();
    const stop = (): void => {
      if (signal.aborted || document.hidden) seen.abort();
    };
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", stop);
    if (!document.hidden) await followLog(place, noting, seen.signal, from());
    signal.removeEventListener("abort", stop);
    document.removeEventListener("visibilitychange", stop);
    if (!over) await untilSeen(signal);
  }
}

const untilSeen = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
