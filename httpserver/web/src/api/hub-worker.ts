/** The shared worker: all tabs of a browser that run this very build talk to one hub. */
import { type FromHub, Hub, type ToHub } from "./hub";
import { onAccount } from "./account-news";

interface SharedWorkerScope {
  onconnect: ((event: MessageEvent) => void) | null;
}

const hub = new Hub();
const lock = `headway hub ${Math.random().toString(36).slice(2)}`;

onAccount((name) => hub.account(name !== null));

/** Held until the worker is gone: then tabs notice. */
const held = new Promise<void>((resolve) => {
  void navigator.locks.request(lock, () => {
    resolve();
    return new Promise(() => undefined);
  });
});

(self as unknown as SharedWorkerScope).onconnect = (event) => {
  const port = event.ports[0];
  if (port === undefined) return;
  const tab = hub.join({ postMessage: (message: FromHub, transfer: Transferable[] = []) => port.postMessage(message, transfer) });
  port.onmessage = ({ data }: MessageEvent<ToHub>) => {
    if (data.kind !== "hello") {
      hub.heard(tab, data);
      return;
    }
    // A tab that is closed says nothing, but its lock is free then.
    void navigator.locks.request(data.lock, () => hub.leave(tab));
    void held.then(() => port.postMessage({ kind: "welcome", lock } satisfies FromHub));
  };
};
