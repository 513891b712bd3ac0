/** How the line to the server stands on which changes come. */

export type Connection = "connecting" | "live" | "broken";

export interface ConnectionState {
  readonly state: Connection;
  /** In ms. Not live: the moment from which on changes may be missing. Live: the moment from which on none is. */
  readonly since: number;
}

/** What is known after this news; to try again and to give up are one break. */
export function connectionAfter(old: ConnectionState, state: Connection, now: number): ConnectionState {
  if (state === old.state) return old;
  return { state, since: (state === "live") === (old.state === "live") ? old.since : now };
}
