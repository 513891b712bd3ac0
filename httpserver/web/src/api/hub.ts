/** One line for events and one for logs, for all tabs of a browser. Runs in the shared worker; without one, in a tab. */
import { type Connection, type ConnectionState, connectionAfter } from "./connection-state";
import { type FollowedLog, LogFeed } from "./log-feed";
import type { LogPlace, LogState } from "./log-place";
import { type ServerEvent, type StreamPlace, readEvents } from "./sse";
import { Watch } from "./watch";

export type ToHub =
  /** The tab lives: what it says to a beat of the hub. */
  | { readonly kind: "beat" }
  /** It is closed, or put aside by the browser. */
  | { readonly kind: "bye" }
  /** A call was answered at this moment, in ms. */
  | { readonly kind: "answer"; readonly at: number }
  /** A call was not. `answered`: the last that was. */
  | { readonly kind: "silence"; readonly answered: number }
  /** Whether it wants events. Who does is signed in. */
  | { readonly kind: "listen"; readonly on: boolean }
  | { readonly kind: "follow"; readonly id: number; readonly place: LogPlace; readonly from: number | null }
  | { readonly kind: "leave"; readonly id: number }
  /** The log was drawn up to here. */
  | { readonly kind: "took"; readonly id: number; readonly offset: number };

export type FromHub =
  | { readonly kind: "welcome" }
  /** The hub lives. */
  | { readonly kind: "beat" }
  /** The tab has long said nothing: the hub does not know it any more. */
  | { readonly kind: "dropped" }
  /** Since when the server does not answer, in ms; null: it answers. */
  | { readonly kind: "away"; readonly since: number | null }
  | { readonly kind: "connection"; readonly connection: ConnectionState }
  | { readonly kind: "events"; readonly events: readonly ServerEvent[] }
  | { readonly kind: "bytes"; readonly id: number; readonly data: Uint8Array; readonly offset: number }
  | { readonly kind: "state"; readonly id: number; readonly state: LogState; readonly sentence?: string | undefined }
  | { readonly kind: "signed out" };

/** What a tab is reached by. */
export interface TabPort {
  postMessage(message: FromHub, transfer?: Transferable[]): void;
}

/** How often hub and tabs tell each other that they live. */
export const BEAT_MS = 3000;
/** A tab that misses so many is asleep or gone. A busy one that is dropped wrongly joins again. */
const MOST_MISSED = 20;

export class Tab {
  listens = false;
  /** Beats that it has not answered. */
  missed = 0;
  readonly logs = new Map<number, FollowedLog>();

  constructor(readonly port: TabPort) {}
}

const RESET: readonly ServerEvent[] = [{ name: "reset", data: '{"reason":"joined"}' }];

export class Hub {
  private readonly tabs = new Set<Tab>();
  private reading: AbortController | null = null;
  private connection: ConnectionState = { state: "connecting", since: Date.now() };
  private place: StreamPlace = { last: "" };
  /** Whether a tab wants events and its session is good. */
  private wanted = false;
  private asleep = false;
  private readonly watch = new Watch((since) => this.away(since));
  private readonly logs = new LogFeed(
    () => this.signedOut(),
    () => this.watch.answered(),
  );

  join(port: TabPort): Tab {
    const tab = new Tab(port);
    this.tabs.add(tab);
    port.postMessage({ kind: "welcome" });
    if (this.watch.awaySince !== null) port.postMessage({ kind: "away", since: this.watch.awaySince });
    return tab;
  }

  /** Each `BEAT_MS`. Who does not answer for long is closed, or asleep: messages would pile up for it. */
  beat(): void {
    for (const tab of [...this.tabs]) {
      tab.missed += 1;
      if (tab.missed <= MOST_MISSED) {
        tab.port.postMessage({ kind: "beat" });
        continue;
      }
      tab.port.postMessage({ kind: "dropped" });
      this.leave(tab);
    }
  }

  /** Nobody sees its only tab: the lines are let go of, and nobody is told. */
  sleep(): void {
    this.asleep = true;
    this.watch.sleep();
    this.logs.halt();
    this.cut();
  }

  /** The lines go on where they were. */
  wake(): void {
    this.asleep = false;
    this.watch.wake();
    if (this.wanted && this.watch.awaySince === null) this.open();
  }

  leave(tab: Tab): void {
    this.tabs.delete(tab);
    tab.logs.forEach((log) => this.logs.leave(log));
    tab.logs.clear();
    this.endIfAlone();
  }

  heard(tab: Tab, message: ToHub): void {
    if (!this.tabs.has(tab)) return;
    tab.missed = 0;
    const log = "id" in message ? tab.logs.get(message.id) : undefined;
    if (message.kind === "listen") this.listen(tab, message.on);
    else if (message.kind === "bye") this.leave(tab);
    else if (message.kind === "answer") this.watch.answered(message.at);
    else if (message.kind === "silence") this.watch.suspect(message.answered);
    else if (message.kind === "follow") this.follow(tab, message.id, message.place, message.from);
    else if (message.kind === "took" && log !== undefined) this.logs.took(log, message.offset);
    else if (message.kind === "leave" && log !== undefined) {
      tab.logs.delete(message.id);
      this.logs.leave(log);
    }
  }

  /** Somebody has signed in or out in a tab: lines of before are another session's. */
  account(signedIn: boolean): void {
    this.stop();
    if (signedIn && [...this.tabs].some((tab) => tab.listens)) this.start();
  }

  private listen(tab: Tab, on: boolean): void {
    tab.listens = on;
    if (!on) {
      this.endIfAlone();
      return;
    }
    if (!this.wanted) this.start();
    tab.port.postMessage({ kind: "connection", connection: this.connection });
    // What it has loaded may be older than the line: the server says the same at the start of one.
    if (this.connection.state === "live") tab.port.postMessage({ kind: "events", events: RESET });
  }

  private follow(tab: Tab, id: number, place: LogPlace, from: number | null): void {
    const { port } = tab;
    const log = this.logs.follow(place, from, {
      bytes: (data, offset) => port.postMessage({ kind: "bytes", id, data, offset }, [data.buffer as ArrayBuffer]),
      state: (state, sentence) => port.postMessage({ kind: "state", id, state, sentence }),
    });
    tab.logs.set(id, log);
  }

  private start(): void {
    this.wanted = true;
    this.place = { last: "" };
    if (!this.asleep && this.watch.awaySince === null) this.open();
  }

  private open(): void {
    this.cut();
    const reading = new AbortController();
    this.reading = reading;
    this.logs.begin();
    const mine = (): boolean => this.reading === reading;
    void readEvents(
      {
        state: (state) => mine() && this.stood(state),
        events: (events) => mine() && this.tell({ kind: "events", events }),
        signedOut: () => mine() && this.signedOut(),
        heard: () => mine() && this.watch.streamed(),
      },
      reading.signal,
      this.place,
    );
  }

  /** What the line itself says of how it stands. */
  private stood(state: Connection): void {
    if (state === "live") {
      this.watch.answered();
      this.watch.streamed();
      this.connected(state);
      return;
    }
    this.watch.streamEnded();
    this.connected(state);
    this.watch.suspect();
  }

  /** While it is away the hub alone asks for it; lines are opened again when it is back. */
  private away(since: number | null): void {
    if (since === null) {
      if (this.wanted && !this.asleep && this.reading === null) this.open();
    } else if (this.connection.state !== "live" && this.wanted) {
      this.logs.halt();
      this.cut();
      this.connected("broken");
    }
    for (const tab of this.tabs) tab.port.postMessage({ kind: "away", since });
  }

  private cut(): void {
    const reading = this.reading;
    this.reading = null;
    this.watch.streamEnded();
    reading?.abort();
  }

  private stop(): void {
    const stood = this.wanted;
    this.wanted = false;
    this.logs.halt();
    this.cut();
    if (stood) this.connected("connecting");
  }

  private endIfAlone(): void {
    if (![...this.tabs].some((tab) => tab.listens)) this.stop();
  }

  private signedOut(): void {
    this.stop();
    this.connected("broken");
    this.tell({ kind: "signed out" });
  }

  private connected(state: Connection): void {
    // What came until the last event is known; later changes may be missing.
    const now = state === "live" ? Date.now() : Math.max(this.connection.since, this.watch.lastStreamed || Date.now());
    const next = connectionAfter(this.connection, state, now);
    if (next === this.connection) return;
    this.connection = next;
    this.tell({ kind: "connection", connection: next });
  }

  private tell(message: FromHub): void {
    for (const tab of this.tabs) if (tab.listens) tab.port.postMessage(message);
  }
}
