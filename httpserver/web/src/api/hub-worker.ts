/** The shared worker: all tabs of a browser that run this very build talk to one hub. */
import { BEAT_MS, type FromHub, Hub, type ToHub } from "./hub";
import { onAccount } from "./account-news";

interface SharedWorkerScope {
  onconnect: ((event: MessageEvent) => void) | null;
}

const hub = new Hub();

onAccount((name) => hub.account(name !== null));
setInterval(() => hub.beat(), BEAT_MS);

(self as unknown as SharedWorkerScope).onconnect = (event) => {
  const port = event.ports[0];
  if (port === undefined) return;
  const tab = hub.join({ postMessage: (message: FromHub, transfer: Transferable[] = []) => port.postMessage(message, transfer) });
  port.onmessage = ({ data }: MessageEvent<ToHub>) => hub.heard(tab, data);
  // Newer browsers tell at once that a tab is gone, also one that crashed.
  port.addEventListener("close", () => hub.leave(tab));
};
