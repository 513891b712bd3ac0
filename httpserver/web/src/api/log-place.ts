/** Which log, and what who follows one is told. */

export interface LogPlace {
  readonly job: string;
  readonly task: string;
  readonly attempt: number;
  readonly stream: string;
}

/** What a log is opened with: its tail, so that a log of gigabytes opens at once. */
export const TAIL_BYTES = 512 * 1024;

/** "refused" comes with the server's sentence: asking again would not help. */
export type LogState = "live" | "ended" | "reconnecting" | "none" | "refused";

export interface LogListener {
  /** Bytes from `offset` on; the first piece of a tail starts in the middle of the log. */
  bytes(data: Uint8Array, offset: number): void;
  /** How it stands, in words for people where it is refused. */
  state(state: LogState, sentence?: string): void;
}
