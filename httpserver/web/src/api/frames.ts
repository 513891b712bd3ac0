/** The frames of `POST /logs/follow`: a line of JSON each, and bytes of a log behind some. */

export interface Frame {
  readonly kind: "open" | "bytes" | "end" | "problem" | "alive";
  /** Its place in the list that was sent. */
  readonly log?: number;
  readonly offset?: number;
  readonly size?: number;
  readonly status?: number;
  readonly detail?: string;
}

export interface WholeFrame {
  readonly frame: Frame;
  readonly data: Uint8Array;
}

const NEWLINE = 10;
const NOTHING = new Uint8Array(0);

/** Makes frames of pieces that are cut anywhere. */
export class FrameReader {
  private held: Uint8Array = NOTHING;
  private readonly text = new TextDecoder();

  push(piece: Uint8Array): WholeFrame[] {
    let data = piece;
    if (this.held.length > 0) {
      data = new Uint8Array(this.held.length + piece.length);
      data.set(this.held);
      data.set(piece, this.held.length);
    }
    const found: WholeFrame[] = [];
    let at = 0;
    for (;;) {
      const end = data.indexOf(NEWLINE, at);
      if (end < 0) break;
      const frame = JSON.parse(this.text.decode(data.subarray(at, end))) as Frame;
      const size = frame.kind === "bytes" ? (frame.size ?? 0) : 0;
      if (data.length < end + 1 + size) break;
      found.push({ frame, data: data.slice(end + 1, end + 1 + size) });
      at = end + 1 + size;
    }
    this.held = data.slice(at);
    return found;
  }
}
