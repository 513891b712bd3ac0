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

/** So much of what is shown of a long line is its end: there a program says how it came out. */
const endOf = (limits: LogLimits): number => Math.floor(limits.maxLine / 4);

/** Both ends of a line that is not shown whole. `missing`: what was not even kept between them. */
function cutShort(head: string, tail: string, limits: LogLimits, missing: number): string {
  const end = endOf(limits);
  const [first, last] = [head.slice(0, limits.maxLine - end), tail.slice(-end)];
  const more = head.length - first.length + tail.length - last.length + missing;
  return `${first} … (${more} more characters in this line) … ${last}`;
}

/** A line in one piece, as far as it is shown. */
function bounded(text: string, limits: LogLimits): string {
  if (text.length <= limits.maxLine) return text;
  const end = text.length - endOf(limits);
  return cutShort(text.slice(0, end), text.slice(end), limits, 0);
}

/** One line as a terminal would show it, without its colours. */
export const settle = (line: string, limits: LogLimits = defaultLimits): string => bounded(settled(line).text, limits);

/** Without the part of a letter at its end, or at its start, where it was cut by bytes. */
function beforeCut(bytes: Uint8Array): Uint8Array {
  let end = bytes.byteLength;
  while (end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.slice(0, end > 0 && (bytes[end - 1] ?? 0) >= 0xc0 ? end - 1 : end);
}
function afterCut(bytes: Uint8Array): Uint8Array {
  let start = 0;
  while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return bytes.slice(start);
}

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
  /** Where the last line is too long: its start, raw. `rest` is its end, and between them are the bytes that were dropped. */
  private restHead: Uint8Array | null = null;
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
      this.restHead = null;
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
        if (this.restHead === null) this.rest = joined([tail, this.rest]);
        else {
          const most = 2 * this.limits.maxLine;
          const whole = joined([tail, this.restHead]);
          this.restHead = beforeCut(whole.subarray(0, most));
          this.restDropped += whole.byteLength - this.restHead.byteLength;
        }
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

  /** `head`: the start of a line that was too long to be kept; `raw` is its end, `dropped` what was between. */
  private made(raw: string, at: number, index: number, style: Style, dropped: number, head = ""): { line: LogLine; style: Style } {
    const most = 8 * this.limits.maxLine;
    if (raw.length > most || head !== "") {
      const last = raw.lastIndexOf("\r", raw.length - 2);
      if (last >= 0) [raw, head, dropped] = [raw.slice(last), "", 0];
    }
    if (raw.length > most) {
      // Nobody reads the middle, and each colour of it would cost time.
      if (head === "") head = raw.slice(0, most / 2);
      else dropped += most / 2;
      dropped += raw.length - most;
      raw = raw.slice(-most / 2);
    }
    const start = head === "" ? null : settled(head, style);
    const made = settled(raw.endsWith("\r") ? raw.slice(0, -1) : raw, start?.style ?? style);
    if (start !== null) return { line: { at, index, text: cutShort(start.text, made.text, this.bounds, dropped), runs: null }, style: made.style };
    const text = bounded(made.text, this.bounds);
    return { line: { at, index, text, runs: text === made.text ? made.runs : null }, style: made.style };
  }

  /** The last line, of what is kept of it. */
  private last(raw: Uint8Array): { line: LogLine; style: Style } {
    const head = this.restHead === null ? "" : this.decoder.decode(this.restHead);
    return this.made(this.decoder.decode(raw), this.restAt, this.restIndex, this.style, this.restDropped, head);
  }

  private push(raw: Uint8Array): void {
    if (this.held.length === 0 && this.restAt === this.begin && this.begin > 0) {
      this.head = raw.byteLength <= MAX_HEAD && this.restDropped === 0 ? raw.slice() : null;
    }
    const made = this.last(raw);
    this.style = made.style;
    this.held.push(made.line);
    this.chars += made.line.text.length + 1;
  }

  /** The line so far: both its ends; a long progress bar keeps its last state alone. */
  private boundRest(): void {
    const most = 2 * this.limits.maxLine;
    if (this.rest.byteLength <= most) return;
    const last = this.rest.lastIndexOf(RETURN, this.rest.byteLength - 2);
    if (last > 0) {
      this.rest = this.rest.slice(last);
      this.restHead = null;
      this.restDropped = 0;
    }
    if (this.rest.byteLength <= 4 * most) return;
    const before = this.rest.byteLength;
    const head = this.restHead === null ? beforeCut(this.rest.subarray(0, most)) : null;
    this.rest = afterCut(this.rest.subarray(before - most));
    this.restDropped += before - this.rest.byteLength - (head?.byteLength ?? 0);
    this.restHead ??= head;
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
    this.restHead = null;
    this.restDropped = 0;
    this.restAt = this.offset = next.at;
    this.restIndex = next.index;
    this.style = PLAIN;
  }

  /** All lines, the unfinished one last. */
  lines(): readonly LogLine[] {
    if (this.rest.byteLength === 0) return this.held.slice();
    const tail = this.last(this.rest).line;
    return tail.text === "" ? this.held.slice() : [...this.held, tail];
  }

  /** Their texts. */
  view(): string[] {
    return this.lines().map((line) => line.text);
  }
}
