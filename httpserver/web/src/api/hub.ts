/** One line for events and one for logs, for all tabs of a browser. Runs in the shared worker. */
import { type Connection, type ConnectionState, connectionAfter } from "./connection-state";
import { type FollowedLog, LogFeed } from "./log-feed";
import type { LogPlace, LogState } from "./log-place";
import { type ServerEvent, readEvents } from "./sse";

export type ToHub =
  /** A Web Lock that the tab holds for as long as it lives. */
  | { readonly kind: "hello"; readonly lock: string }
  /** Whether it wants events. Who does is signed in. */
  | { readonly kind: "listen"; readonly on: boolean }
  | { readonly kind: "follow"; readonly id: number; readonly place: LogPlace; readonly from: number | null }
  | { readonly kind: "leave"; readonly id: number }
  /** The log was drawn up to here. */
  | { readonly kind: "took"; readonly id: number; readonly offset: number };

export type FromHub =
  /** A Web Lock that the worker holds for as long as it lives. */
  | { readonly kind: "welcome"; readonly lock: string }
  | { readonly kind: "connection"; readonly connection: ConnectionState }
  | { readonly kind: "events"; readonly events: readonly ServerEvent[] }
  | { readonly kind: "bytes"; readonly id: number; readonly data: Uint8Array; readonly offset: number }
  | { readonly kind: "state"; readonly id: number; readonly state: LogState; readonly sentence?: string | undefined }
  | { readonly kind: "signed out" };

/** What a tab is reached by. */
export interface TabPort {
  postMessage(message: FromHub, transfer?: Transferable[]): void;
}

export class Tab {
  listens = false;
  readonly logs = new Map<number, FollowedLog>();

  constructor(readonly port: TabPort) {}
}

const RESET: readonly ServerEvent[] = [{ name: "reset", data: '{"reason":"joined"}' }];

export class Hub {
  private readonly tabs = new Set<Tab>();
  private reading: AbortController | null = null;
  private connection: ConnectionState = { state: "connecting", since: Date.now() };
  private readonly logs = new LogFeed(() => this.signedOut());

  join(port: TabPort): Tab {
    const tab = new Tab(port);
    this.tabs.add(tab);
    return tab;
  }

  leave(tab: Tab): void {
    this.tabs.delete(tab);
    tab.logs.forEach((log) => this.logs.leave(log));
    tab.logs.clear();
    this.endIfAlone();
  }

  heard(tab: Tab, message: ToHub): void {
    if (!this.tabs.has(tab)) return;
    const log = "id" in message ? tab.logs.get(message.id) : undefined;
    if (message.kind === "listen") this.listen(tab, message.on);
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
    if (this.reading === null) this.start();
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
    const reading = new AbortController();
    this.reading = reading;
    this.logs.begin();
    void readEvents(
      {
        state: (state) => this.reading === reading && this.connected(state),
        events: (events) => this.reading === reading && this.tell({ kind: "events", events }),
        signedOut: () => this.reading === reading && this.signedOut(),
      },
      reading.signal,
    );
  }

  private stop(): void {
    const reading = this.reading;
    this.reading = null;
    this.logs.halt();
    if (reading === null) return;
    reading.abort();
    this.connected("connecting");
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
    const next = connectionAfter(this.connection, state, Date.now());
    if (next === this.connection) return;
    this.connection = next;
    this.tell({ kind: "connection", connection: next });
  }

  private tell(message: FromHub): void {
    for (const tab of this.tabs) if (tab.listens) tab.port.postMessage(message);
  }
}
