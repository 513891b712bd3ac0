/**
 * What of a log is on screen: the last lines, whatever the bytes.
 *
 * Bytes come in pieces; a letter may be cut in two, a progress bar rewrites its line with carriage returns, a line may
 * be megabytes long, and the whole may be gigabytes: memory stays bounded, and what is left out is counted.
 */
export interface LogLimits {
  readonly maxChars: number;
  readonly maxLine: number;
}

export const defaultLimits: LogLimits = { maxChars: 2_000_000, maxLine: 4_000 };

// Colours and cursor moves of terminals.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** One line as a terminal would show it: what follows a carriage return overwrites what was there. */
export function settle(line: string, limits: LogLimits = defaultLimits): string {
  const plain = line.replace(ESCAPES, "");
  let shown = "";
  for (const part of plain.split("\r")) {
    if (part === "") continue;
    shown = part.length >= shown.length ? part : part + shown.slice(part.length);
  }
  shown = shown.replace(CONTROLS, "\ufffd");
  if (shown.length <= limits.maxLine) return shown;
  return `${shown.slice(0, limits.maxLine)} … (${shown.length - limits.maxLine} more characters in this line)`;
}

export class LogText {
  private readonly decoder = new TextDecoder("utf-8", { fatal: false });
  private lines: string[] = [];
  private chars = 0;
  /** The last line, not ended yet, raw; its settled head is dropped where a carriage return made it void. */
  private rest = "";
  private restDropped = 0;
  /** Lines that fell out at the top. */
  dropped = 0;
  /** Bytes seen: where to go on after a cut. */
  offset: number;

  constructor(
    offset = 0,
    private readonly limits: LogLimits = defaultLimits,
  ) {
    this.offset = offset;
  }

  add(bytes: Uint8Array): void {
    this.offset += bytes.byteLength;
    const pieces = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = pieces.pop() ?? "";
    for (const piece of pieces) {
      this.push(piece);
    }
    this.boundRest();
    this.boundLines();
  }

  /** The line so far; a long progress bar keeps its last state alone. */
  private boundRest(): void {
    if (this.rest.length <= 2 * this.limits.maxLine) return;
    const last = this.rest.lastIndexOf("\r", this.rest.length - 2);
    if (last > 0) {
      this.rest = this.rest.slice(last);
    } else if (this.rest.length > 8 * this.limits.maxLine) {
      this.restDropped += this.rest.length - 2 * this.limits.maxLine;
      this.rest = this.rest.slice(0, 2 * this.limits.maxLine);
    }
  }

  private push(raw: string): void {
    const line = settle(raw, this.limits);
    const shown = this.restDropped ? `${line} (and ${this.restDropped} more)` : line;
    this.restDropped = 0;
    this.lines.push(shown);
    this.chars += shown.length + 1;
  }

  private boundLines(): void {
    if (this.chars <= this.limits.maxChars) return;
    let drop = 0;
    let chars = this.chars;
    // A fifth at once, so that a fast log does not shift the array at every chunk.
    while (drop < this.lines.length && chars > this.limits.maxChars * 0.8) {
      chars -= (this.lines[drop]?.length ?? 0) + 1;
      drop += 1;
    }
    this.lines = this.lines.slice(drop);
    this.chars = chars;
    this.dropped += drop;
  }

  /** All lines, the unfinished one last. */
  view(): string[] {
    const tail = settle(this.rest, this.limits);
    return tail ? [...this.lines, tail] : this.lines.slice();
  }
}
