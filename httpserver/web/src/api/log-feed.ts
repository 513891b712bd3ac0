/** All logs that the tabs of a browser follow, over one line. */
import { FrameReader, type Frame } from "./frames";
import { isForeign } from "./foreign";
import { type LogListener, type LogPlace, TAIL_BYTES } from "./log-place";
import { readPieces } from "./sse";

/** Tabs come and go together: the line is opened anew once, but no later than this after the first change. */
const SETTLE_MS = 50;
const LONGEST_SETTLE_MS = 500;
/** As many as the server follows at a time. */
export const MOST_LOGS = 128;
/** A tab that is so far behind gets nothing more until it has drawn what it has. */
const MOST_BEHIND = 4 << 20;
const LOOK_AGAIN_MS = 1500;
const LONGEST_LOOK_MS = 24_000;
const PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
/** A server may ask for no longer patience than this. */
const LONGEST_WAIT_MS = 60_000;

/** One log for one tab. */
export class FollowedLog {
  /** The next byte; null: its tail. */
  at: number | null;
  /** As far as the tab has it. */
  taken = 0;
  over = false;
  /** So far behind that the line goes without it. */
  paused = false;
  failures = 0;
  /** In ms; not asked for before. */
  notBefore = 0;

  constructor(
    readonly place: LogPlace,
    from: number | null,
    readonly out: LogListener,
  ) {
    this.at = from;
    this.taken = from ?? 0;
  }

  get behind(): boolean {
    return this.at !== null && this.at - this.taken > MOST_BEHIND;
  }
}

interface Problem {
  readonly errors?: readonly { readonly pointer?: string; readonly message?: string }[];
}

/** Some are refused: the others are asked for at once. */
class Refused extends Error {}

/** The server asks for patience, in ms. */
class Again extends Error {
  constructor(readonly wait: number) {
    super("again");
  }
}

const waitOf = (response: Response): number => {
  const seconds = Number(response.headers.get("retry-after") ?? 0);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds * 1000, 0), LONGEST_WAIT_MS) : 0;
};

export class LogFeed {
  private readonly logs = new Set<FollowedLog>();
  private line: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private changedAt: number | null = null;
  private failures = 0;
  private halted = false;
  /** The server asked for patience until then. */
  private notBefore = 0;

  /** `signedOut`: the session is over; nothing is asked for any more until `begin`. */
  constructor(
    private readonly signedOut: () => void,
    private readonly answered: () => void = () => undefined,
  ) {}

  follow(place: LogPlace, from: number | null, out: LogListener): FollowedLog {
    const log = new FollowedLog(place, from, out);
    this.logs.add(log);
    this.soon();
    return log;
  }

  leave(log: FollowedLog): void {
    if (this.logs.delete(log) && !log.over) this.soon();
  }

  /** The tab has it up to here. */
  took(log: FollowedLog, offset: number): void {
    log.taken = Math.max(log.taken, offset);
    // It goes on once it has nothing more to draw, and not at each piece.
    if (log.paused && log.taken === log.at) {
      log.paused = false;
      this.soon();
    }
  }

  /** Somebody has signed in: the line is opened as theirs. */
  begin(): void {
    this.halted = false;
    this.failures = 0;
    this.soon();
  }

  halt(): void {
    this.halted = true;
    this.cut();
  }

  private cut(): void {
    const line = this.line;
    this.line = null;
    line?.abort();
  }

  private soon(): void {
    if (this.halted) return;
    const now = Date.now();
    this.changedAt ??= now;
    clearTimeout(this.timer);
    const wait = Math.max(0, this.notBefore - now, Math.min(SETTLE_MS, this.changedAt + LONGEST_SETTLE_MS - now));
    this.timer = setTimeout(() => void this.open(), wait);
  }

  private wanted(): FollowedLog[] {
    const now = Date.now();
    const open = [...this.logs].filter((log) => !log.over && !log.paused && log.notBefore <= now);
    for (const log of open.splice(MOST_LOGS)) {
      log.over = true;
      log.out.state("refused", `This browser follows ${MOST_LOGS} logs already: close some of its tabs.`);
    }
    return open;
  }

  private async open(): Promise<void> {
    this.changedAt = null;
    clearTimeout(this.timer);
    this.cut();
    const logs = this.wanted();
    if (this.halted || logs.length === 0) return;
    const line = new AbortController();
    this.line = line;
    let refused = false;
    try {
      await this.read(logs, line.signal);
    } catch (error) {
      // Away, or cut: those that are not over are asked for again.
      if (error instanceof Again) this.notBefore = Date.now() + error.wait;
      refused = error instanceof Refused;
    }
    if (this.line !== line) return;
    this.line = null;
    line.abort();
    const left = logs.filter((log) => this.logs.has(log) && !log.over && !log.paused && log.notBefore === 0);
    if (left.length === 0) return;
    if (refused) {
      this.soon();
      return;
    }
    left.forEach((log) => log.out.state("reconnecting"));
    const wait = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** this.failures) * (0.75 + Math.random() / 4);
    this.failures += 1;
    setTimeout(() => {
      if (this.line === null) this.soon();
    }, wait);
  }

  private async read(logs: readonly FollowedLog[], signal: AbortSignal): Promise<void> {
    const list = logs.map((log) => ({ ...log.place, ...(log.at === null ? { tail: TAIL_BYTES } : { offset: log.at }) }));
    const response = await fetch("/api/v1/logs/follow", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ logs: list }),
      signal,
    });
    if (isForeign(response)) throw new Error(String(response.status));
    this.answered();
    if (response.status === 401) {
      this.halt();
      this.signedOut();
      return;
    }
    if (!response.ok || response.body === null) {
      const refused = await this.refusals(response, logs);
      throw refused ? new Refused() : new Again(waitOf(response));
    }
    const frames = new FrameReader();
    await readPieces(response.body, (piece) => {
      if (signal.aborted) return;
      const found = frames.push(piece);
      if (found.length > 0) this.failures = 0;
      for (const { frame, data } of found) {
        const log = frame.log === undefined ? undefined : logs[frame.log];
        if (log !== undefined && this.logs.has(log)) this.heard(log, frame, data);
      }
    });
  }

  /** Of a refusal of the whole: the logs that it names. The others have nothing to do with it. */
  private async refusals(response: Response, logs: readonly FollowedLog[]): Promise<boolean> {
    const mayRefuse = [400, 403, 404, 409, 422].includes(response.status) && (response.headers.get("content-type") ?? "").startsWith("application/problem+json");
    const problem = mayRefuse ? ((await response.json().catch(() => null)) as Problem | null) : null;
    let any = false;
    for (const { pointer = "", message = "" } of problem?.errors ?? []) {
      const at = /^\/logs\/(\d+)(\/|$)/.exec(pointer)?.[1];
      const log = at === undefined ? undefined : logs[Number(at)];
      if (log === undefined || log.over || message === "") continue;
      this.refuse(log, message);
      any = true;
    }
    return any;
  }

  private heard(log: FollowedLog, frame: Frame, data: Uint8Array): void {
    if (frame.kind === "open") {
      if (log.at === null) log.taken = frame.offset ?? 0;
      log.at = frame.offset ?? 0;
      log.failures = 0;
      log.notBefore = 0;
      log.out.state("live");
    } else if (frame.kind === "bytes" && !log.paused) {
      const offset = frame.offset ?? 0;
      log.at = offset + data.length;
      log.out.bytes(data, offset);
      if (log.behind) {
        log.paused = true;
        this.soon();
      }
    } else if (frame.kind === "end" && !log.paused) {
      log.over = true;
      log.out.state("ended");
    } else if (frame.kind === "problem") {
      this.problem(log, frame);
    }
  }

  private problem(log: FollowedLog, { status = 500, detail }: Frame): void {
    if (status === 416) {
      log.over = true;
      log.out.state("ended");
    } else if (status !== 404 && status < 500 && status !== 429) {
      this.refuse(log, detail);
    } else {
      log.out.state(status === 404 ? "none" : "reconnecting");
      const wait = Math.min(LONGEST_LOOK_MS, LOOK_AGAIN_MS * 2 ** log.failures);
      log.failures += 1;
      log.notBefore = Date.now() + wait;
      setTimeout(() => {
        if (this.logs.has(log)) this.soon();
      }, wait);
    }
  }

  private refuse(log: FollowedLog, sentence = "The server refused it."): void {
    log.over = true;
    log.out.state("refused", sentence);
  }
}
