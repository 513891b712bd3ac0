/**
 * A window on a log: some of its lines, whatever the bytes.
 *
 * Bytes come in pieces, at either end; a letter may be cut in two, a progress bar rewrites its line with carriage
 * returns, a line may be megabytes long, and the whole may be gigabytes: memory stays bounded. Lines are cut by bytes,
 * so that each one knows where it begins.
 */
import { PLAIN, type Run, type Style, settled } from "./terminal";

export interface LogLimits {
  readonly maxChars: number;
  readonly maxLine: number;
  readonly maxLines: number;
}

export const defaultLimits: LogLimits = { maxChars: 1_000_000, maxLine: 4_000, maxLines: 10_000 };

export interface LogLine {
  /** The byte that it begins at. */
  readonly at: number;
  /** Counted from the line that the window began with, which is 0. */
  readonly index: number;
  readonly text: string;
  readonly runs: readonly Run[] | null;
}

const NEW_LINE = 10;
const RETURN = 13;
/** So much of a line that the window begins within is kept raw, to be joined with what stands before. */
const MAX_HEAD = 64 * 1024;

/** A line's end in words, where not all of it is shown. */
const cutShort = (text: string, limits: LogLimits, dropped: number): string => {
  const more = text.length - limits.maxLine + dropped;
  return text.length <= limits.maxLine ? text + (dropped ? ` … (and ${dropped} more bytes in this line)` : "") : `${text.slice(0, limits.maxLine)} … (${more} more characters in this line)`;
};

/** One line as a terminal would show it, without its colours. */
export const settle = (line: string, limits: LogLimits = defaultLimits): string => cutShort(settled(line).text, limits, 0);

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const only = pieces[0];
  if (pieces.length === 1 && only !== undefined) return only;
  const out = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.byteLength;
  }
  return out;
}

export class LogText {
  private readonly decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  private held: LogLine[] = [];
  private chars = 0;
  /** The last line, not ended yet, raw; its head is dropped where a carriage return made it void. */
  private rest: Uint8Array = new Uint8Array(0);
  private restAt: number;
  private restIndex = 0;
  private restDropped = 0;
  private style: Style = PLAIN;
  /** Raw, the line that the window begins within; null: it begins at a line, or that line is too long. */
  private head: Uint8Array | null = null;
  /** Lines that fell out at the top. */
  dropped = 0;
  /** The byte that the window begins at. */
  begin: number;
  /** The byte behind the window: where to go on. */
  offset: number;
  /** The number of the line with the index 0, from 1; null: not known yet. */
  first: number | null;

  constructor(
    offset = 0,
    private readonly limits: Omit<LogLimits, "maxLines"> & Partial<LogLimits> = defaultLimits,
  ) {
    this.begin = this.offset = this.restAt = offset;
    this.first = offset === 0 ? 1 : null;
  }

  private get bounds(): LogLimits {
    return { maxLines: defaultLimits.maxLines, ...this.limits };
  }

  /** Whether it has as much as it may. */
  get full(): boolean {
    return this.chars > this.limits.maxChars || this.held.length > this.bounds.maxLines;
  }

  /** Bytes behind its end; `keep` says which end gives way when it is full. */
  add(bytes: Uint8Array, keep: "end" | "start" = "end"): void {
    let from = 0;
    for (let end = bytes.indexOf(NEW_LINE); end >= 0; end = bytes.indexOf(NEW_LINE, from)) {
      const raw = joined([this.rest, bytes.subarray(from, end)]);
      this.push(raw);
      from = end + 1;
      this.rest = bytes.subarray(0, 0);
      this.restAt = this.offset + from;
      this.restIndex += 1;
      this.restDropped = 0;
    }
    // A copy: a view would hold on to the whole piece.
    if (from < bytes.byteLength) this.rest = joined([this.rest, bytes.slice(from)]);
    this.offset += bytes.byteLength;
    this.boundRest();
    if (keep === "end") this.dropTop();
  }

  /** Bytes that end where the window begins. */
  addBefore(bytes: Uint8Array): void {
    const at = this.begin - bytes.byteLength;
    const cuts: number[] = [];
    for (let end = bytes.indexOf(NEW_LINE); end >= 0; end = bytes.indexOf(NEW_LINE, end + 1)) cuts.push(end);
    let index = (this.held[0]?.index ?? this.restIndex) - cuts.length;
    const above: LogLine[] = [];
    let style: Style = PLAIN;
    let from = 0;
    for (const end of cuts) {
      const made = this.line(bytes.subarray(from, end), at + from, index, style);
      style = made.style;
      above.push(made.line);
      from = end + 1;
      index += 1;
    }
    // What follows the last line feed belongs to the first line that is held.
    const tail = bytes.slice(from);
    if (tail.byteLength > 0) {
      const first = this.held[0];
      if (first === undefined) {
        this.rest = joined([tail, this.rest]);
        this.restAt = at + from;
        this.boundRest();
      } else if (this.head !== null) {
        const made = this.line(joined([tail, this.head]), at + from, first.index, style).line;
        this.chars += made.text.length - first.text.length;
        this.held[0] = made;
      } else {
        above.push(this.line(tail, at + from, index, style).line);
      }
    }
    for (const line of above) this.chars += line.text.length + 1;
    // With no line feed in it, all of it is the head of the line that was the first.
    const head = cuts.length > 0 ? bytes.slice(0, cuts[0]) : this.head === null ? tail : joined([tail, this.head]);
    this.head = at > 0 && head.byteLength <= MAX_HEAD ? head : null;
    this.held = [...above, ...this.held];
    this.begin = at;
    this.dropped = Math.max(0, this.dropped - above.length);
    if (at === 0 && this.first === null) this.first = 1 - (this.held[0]?.index ?? this.restIndex);
  }

  private line(raw: Uint8Array, at: number, index: number, style: Style): { line: LogLine; style: Style } {
    return this.made(this.decoder.decode(raw), at, index, style, 0);
  }

  private made(raw: string, at: number, index: number, style: Style, dropped: number): { line: LogLine; style: Style } {
    const most = 8 * this.limits.maxLine;
    if (raw.length > most) {
      const last = raw.lastIndexOf("\r", raw.length - 2);
      if (last >= 0) raw = raw.slice(last);
      // Nobody reads on there, and each colour of it would cost time.
      dropped += Math.max(0, raw.length - most);
      raw = raw.slice(0, most);
    }
    const made = settled(raw.endsWith("\r") ? raw.slice(0, -1) : raw, style);
    if (made.text.length <= this.limits.maxLine && dropped === 0) {
      return { line: { at, index, text: made.text, runs: made.runs }, style: made.style };
    }
    return { line: { at, index, text: cutShort(made.text, this.bounds, dropped), runs: null }, style: made.style };
  }

  private push(raw: Uint8Array): void {
    if (this.held.length === 0 && this.restAt === this.begin && this.begin > 0) {
      this.head = raw.byteLength <= MAX_HEAD && this.restDropped === 0 ? raw.slice() : null;
    }
    const made = this.made(this.decoder.decode(raw), this.restAt, this.restIndex, this.style, this.restDropped);
    this.style = made.style;
    this.held.push(made.line);
    this.chars += made.line.text.length + 1;
  }

  /** The line so far; a long progress bar keeps its last state alone. */
  private boundRest(): void {
    if (this.rest.byteLength <= 2 * this.limits.maxLine) return;
    const last = this.rest.lastIndexOf(RETURN, this.rest.byteLength - 2);
    if (last > 0) {
      this.rest = this.rest.slice(last);
    } else if (this.rest.byteLength > 8 * this.limits.maxLine) {
      this.restDropped += this.rest.byteLength - 2 * this.limits.maxLine;
      this.rest = this.rest.slice(0, 2 * this.limits.maxLine);
    }
  }

  /** Lets lines at the top go until there is room. A fifth at once, so that a fast log shifts no array at each piece. */
  dropTop(): void {
    if (!this.full) return;
    let drop = 0;
    while (drop < this.held.length - 1 && (this.chars > this.limits.maxChars * 0.8 || this.held.length - drop > this.bounds.maxLines * 0.8)) {
      this.chars -= (this.held[drop]?.text.length ?? 0) + 1;
      drop += 1;
    }
    if (drop === 0) return;
    this.held = this.held.slice(drop);
    this.dropped += drop;
    this.begin = this.held[0]?.at ?? this.restAt;
    this.head = null;
  }

  /** Lets lines at the bottom go until there is room; the window then ends at a line. */
  dropBottom(): void {
    if (!this.full) return;
    let end = this.held.length;
    while (end > 1 && (this.chars > this.limits.maxChars * 0.8 || end > this.bounds.maxLines * 0.8)) {
      end -= 1;
      this.chars -= (this.held[end]?.text.length ?? 0) + 1;
    }
    const next = this.held[end];
    if (next === undefined) return;
    this.held = this.held.slice(0, end);
    this.rest = new Uint8Array(0);
    this.restDropped = 0;
    this.restAt = this.offset = next.at;
    this.restIndex = next.index;
    this.style = PLAIN;
  }

  /** All lines, the unfinished one last. */
  lines(): readonly LogLine[] {
    if (this.rest.byteLength === 0) return this.held.slice();
    const tail = this.made(this.decoder.decode(this.rest), this.restAt, this.restIndex, this.style, this.restDropped).line;
    return tail.text === "" ? this.held.slice() : [...this.held, tail];
  }

  /** Their texts. */
  view(): string[] {
    return this.lines().map((line) => line.text);
  }
}
