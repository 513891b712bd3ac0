/** Whether the server answers, for all parts of this tab. The browser's hub finds it out, and tells all tabs. */
import { onAway } from "./away";
import { isForeign } from "./foreign";
import { tell } from "./link";
import { Store } from "./store";

export { isForeign } from "./foreign";

/** A call that takes so long makes the hub ask whether the server is there at all. */
export const LONG_MS = 10_000;
/** So long it may take to say so. */
const PATIENCE_MS = 8000;
const AGAIN_MS = 2000;

/** The last answer or event that the browser has seen, in seconds since the epoch; null: the server answers. */
export const awaySince = new Store<number | null>(null);

const back = new Set<() => void>();
/** In ms. The page itself came from the server. */
let answeredAt = Date.now();

/** Calls back when the server answers again, so that what is on screen is asked for anew: at once where somebody sees it. */
export function onBack(listener: () => void): () => void {
  back.add(listener);
  return () => back.delete(listener);
}

function tellBack(): void {
  if (document.hidden) return;
  document.removeEventListener("visibilitychange", tellBack);
  back.forEach((listener) => listener());
}

onAway((since) => {
  const before = awaySince.value;
  awaySince.set(since === null ? null : since / 1000);
  awaySince.draw();
  if (since !== null) document.removeEventListener("visibilitychange", tellBack);
  if (before === null || since !== null) return;
  document.addEventListener("visibilitychange", tellBack);
  tellBack();
});

/** An answer of the server came, a refusal too. */
export function noteAnswer(): void {
  answeredAt = Date.now();
  tell({ kind: "answer", at: answeredAt });
}

/** A call got no answer: is the server away, or was it this one alone? */
export function noteSilence(): void {
  tell({ kind: "silence", answered: answeredAt });
}

/** Asks it, whoever is signed in. */
async function answers(): Promise<boolean> {
  try {
    const response = await fetch("/api/v1/me", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return !isForeign(response);
  } catch {
    return false;
  }
}

const untilBack = (): Promise<void> =>
  new Promise((resolve) => {
    const stop = awaySince.subscribe(() => {
      if (awaySince.value !== null) return;
      stop();
      resolve();
    });
  });

/** A part of the page that is fetched when it is opened: while the server is away it is waited for. */
export async function patiently<T>(fetchPart: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await fetchPart();
    } catch (error) {
      if (awaySince.value === null) {
        if (await answers()) throw error;
        noteSilence();
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
      if (awaySince.value !== null) await untilBack();
    }
  }
}
