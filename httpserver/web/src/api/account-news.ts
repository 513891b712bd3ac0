/** Tells all tabs of a browser, and their hub, that somebody has signed in or out in one of them. */

const NAME = "headway account";
let own: BroadcastChannel | null = null;

const channel = (): BroadcastChannel | null => {
  if (typeof BroadcastChannel !== "undefined") own ??= new BroadcastChannel(NAME);
  return own;
};

/** To all others. `name`: who is signed in now; null: nobody. */
export function tellAccount(name: string | null): void {
  channel()?.postMessage({ name });
}

export function onAccount(listener: (name: string | null) => void): () => void {
  const heard = ({ data }: MessageEvent<{ readonly name: string | null }>): void => listener(data.name);
  channel()?.addEventListener("message", heard);
  return () => channel()?.removeEventListener("message", heard);
}
