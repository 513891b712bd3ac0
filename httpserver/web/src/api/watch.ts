/** Whether the server answers: found out once for all tabs of a browser, by their hub. */
import { isForeign } from "./foreign";

/** So long an answer to "are you there" may take. */
const PATIENCE_MS = 8000;
/** The server says each 15 s on the stream that it lives: who has heard it since then knows that it does. */
const FRESH_MS = 20_000;
/** How often it is asked while it is away. */
const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 5000;

type Found = "answers" | "refused" | "silent";

/** Asks it, whoever is signed in. */
async function find(): Promise<Found> {
  const stop = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    stop.abort();
  }, PATIENCE_MS);
  try {
    const response = await fetch("/api/v1/me", { cache: "no-store", signal: stop.signal });
    return isForeign(response) ? "refused" : "answers";
  } catch {
    return late ? "silent" : "refused";
  } finally {
    clearTimeout(timer);
  }
}

export class Watch {
  /** In ms: the last answer or event that a tab or the hub has seen; 0: none yet. */
  private heardAt = 0;
  /** The last bytes of the stream while it stands; 0: it does not stand. */
  private streamAt = 0;
  private lastBytes = 0;
  private staleTimer: ReturnType<typeof setTimeout> | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** A new one for each suspicion; null: none. */
  private suspicion: object | null = null;
  private failures = 0;
  private failedAt = 0;
  private refused = false;
  private asleep = false;
  private since: number | null = null;

  /** `told`: since when it is away, in ms; null: it answers again. */
  constructor(private readonly told: (since: number | null) => void) {}

  get awaySince(): number | null {
    return this.since;
  }

  /** In ms: the last bytes of a stream; 0: none yet. */
  get lastStreamed(): number {
    return this.lastBytes;
  }

  /** It answered somebody, by a refusal too. */
  answered(at: number = Date.now()): void {
    this.heardAt = Math.max(this.heardAt, at);
    if (this.suspicion === null || at < this.failedAt) return;
    this.trust();
  }

  /** Bytes on the stream. They prove that it lives, though not that new calls come through. */
  streamed(): void {
    const now = Date.now();
    this.heardAt = now;
    this.streamAt = now;
    this.lastBytes = now;
    clearTimeout(this.staleTimer);
    this.staleTimer = setTimeout(() => this.suspect(), FRESH_MS);
    if (this.suspicion !== null && !this.refused) this.trust();
  }

  /** The stream broke, or was ended by the hub itself. */
  streamEnded(): void {
    this.streamAt = 0;
    clearTimeout(this.staleTimer);
  }

  /** A call got no answer, or a stream broke: is the server away, or was it this one alone? `at`: the last answer there. */
  suspect(at = 0): void {
    this.heardAt = Math.max(this.heardAt, at);
    if (this.suspicion !== null || this.asleep) return;
    this.suspicion = {};
    this.failures = 0;
    this.refused = false;
    void this.look(this.suspicion, Date.now());
  }

  /** Nobody looks: nothing is asked for. */
  sleep(): void {
    this.asleep = true;
    this.streamEnded();
    clearTimeout(this.timer);
    this.suspicion = null;
  }

  wake(): void {
    this.asleep = false;
    if (this.since !== null) this.suspect();
  }

  private trust(): void {
    this.suspicion = null;
    clearTimeout(this.timer);
    if (this.since === null) return;
    this.since = null;
    this.told(null);
  }

  private async look(suspicion: object, began: number): Promise<void> {
    const found = await find();
    if (this.suspicion !== suspicion) return;
    const now = Date.now();
    if (found === "answers") {
      this.heardAt = now;
      this.trust();
      return;
    }
    const lives = now - this.streamAt < FRESH_MS;
    // The question may have waited for one of the browser's six connections, which other calls hold.
    if (found === "silent" && lives) {
      this.trust();
      return;
    }
    this.failures += 1;
    this.failedAt = now;
    this.refused = found === "refused";
    // Of a server that is heard at the same time, one refusal in passing says little.
    if (this.since === null && !(lives && this.failures < 2)) {
      this.since = this.heardAt || began;
      this.told(this.since);
    }
    const wait = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** (this.failures - 1)) * (0.75 + Math.random() / 2);
    this.timer = setTimeout(() => void this.look(suspicion, began), wait);
  }
}
