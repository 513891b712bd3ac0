/** The state of the line to the server, for all parts of the page. */
import { type ConnectionState } from "./connection-state";
import { Store } from "./store";

export type { Connection, ConnectionState } from "./connection-state";

export const connection = new Store<ConnectionState>({ state: "connecting", since: Date.now() });

/** At once: a break is seen before the next click. */
export function setConnection(next: ConnectionState): void {
  if (next.state === connection.value.state && next.since === connection.value.since) return;
  connection.set(next);
  connection.draw();
}
