/** A tab's way to the hub of its browser; where there is none, lines of its own. */
import type { ConnectionState } from "./connection-state";
import type { FromHub, ToHub } from "./hub";
import hubUrl from "./hub-worker?worker&url";
import { followLog } from "./log";
import type { LogListener, LogPlace } from "./log-place";
import { type ServerEvent, readEvents } from "./sse";
import { connectionAfter } from "./connection-state";
import { connection } from "./connection";

export interface PageSink {
  connection(state: ConnectionState): void;
  events(events: readonly ServerEvent[]): void;
  signedOut(): void;
}

/** A worker that has not answered by then is done without; a machine on which fifty tabs open at once needs a while. */
const WELCOME_MS = 10_000;

interface Following {
  readonly listener: LogListener;
  readonly done: (end: "over" | "lost") => void;
}

class HubLine {
  private readonly sinks = new Set<PageSink>();
  private readonly logs = new Map<number, Following>();
  private next = 0;

  constructor(private readonly port: MessagePort) {}

  heard(message: FromHub): void {
    if (message.kind === "connection") this.sinks.forEach((sink) => sink.connection(message.connection));
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

  private say(message: ToHub): void {
    this.port.postMessage(message);
  }

  private end(id: number, how: "over" | "lost"): void {
    const log = this.logs.get(id);
    this.logs.delete(id);
    if (log === undefined) return;
    if (how === "over") this.say({ kind: "leave", id });
    log.done(how);
  }

  /** The worker is gone. */
  lost(): void {
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

let current: Promise<HubLine | null> | null = null;
const onLost = new Set<() => void>();

function line(): Promise<HubLine | null> {
  current ??= connect().catch(() => null);
  return current;
}

/** Null: this browser has no shared workers, or this one did not start. */
async function connect(): Promise<HubLine | null> {
  // Locks tell who is gone. Browsers have them where the page came over TLS or from the same machine.
  if (typeof SharedWorker === "undefined" || navigator.locks === undefined) return null;
  // Its address has a hash of its content, so that tabs of two builds never meet.
  const worker = new SharedWorker(hubUrl, { type: "module", name: "headway" });
  const own = `headway tab ${Math.random().toString(36).slice(2)}`;
  let release = (): void => undefined;
  const closed = new Promise<void>((resolve) => {
    release = resolve;
  });
  const found = new HubLine(worker.port);
  const lock = await new Promise<string | null>((resolve) => {
    setTimeout(() => resolve(null), WELCOME_MS);
    worker.onerror = () => resolve(null);
    worker.port.onmessage = ({ data }: MessageEvent<FromHub>) => {
      if (data.kind === "welcome") resolve(data.lock);
      else found.heard(data);
    };
    void navigator.locks.request(own, () => {
      worker.port.postMessage({ kind: "hello", lock: own } satisfies ToHub);
      return closed;
    });
  });
  if (lock === null) {
    worker.port.close();
    release();
    return null;
  }
  void navigator.locks.request(lock, () => {
    release();
    current = null;
    found.lost();
    onLost.forEach((again) => again());
  });
  return found;
}

/** Events until the end is called; the sink hears of the connection as well. */
export function listenTo(sink: PageSink): () => void {
  const stop = new AbortController();
  let end = (): void => undefined;
  const start = async (): Promise<void> => {
    const hub = await line();
    if (stop.signal.aborted) return;
    if (hub !== null) {
      end = hub.listen(sink);
      return;
    }
    let state: ConnectionState = connection.value;
    const alone = {
      state: (now: ConnectionState["state"]) => {
        state = connectionAfter(state, now, Date.now());
        sink.connection(state);
      },
      events: (events: readonly ServerEvent[]) => sink.events(events),
      signedOut: () => sink.signedOut(),
    };
    await readEvents(alone, stop.signal);
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
    if (hub === null) return followLog(place, noting, signal, offset);
    if ((await hub.follow(place, noting, signal, offset)) === "over") return;
    listener.state("reconnecting");
  }
}
