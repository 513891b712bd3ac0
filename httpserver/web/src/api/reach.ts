/** Whether the server answers: one state for the whole page, told by whoever asked. */
import { Store } from "./store";

/** A call that takes so long makes the page ask whether the server is there at all. */
export const LONG_MS = 10_000;
/** So long it may take to say so. */
const PATIENCE_MS = 8000;
/** How often it is asked for while it is away. */
const AGAIN_MS = 2000;

/** Since when it does not answer, in seconds since the epoch; null: it answers. */
export const awaySince = new Store<number | null>(null);

const back = new Set<() => void>();
/** The first call without an answer; whether it is away is being found out. */
let suspected: number | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Calls back when the server answers again, so that what is on screen is asked for anew. */
export function onBack(listener: () => void): () => void {
  back.add(listener);
  return () => back.delete(listener);
}

/** What a proxy, or somebody else at this address, says in the server's place. Headway's own failures are JSON. */
export const isForeign = (response: Response): boolean => {
  const kind = response.headers.get("content-type") ?? "";
  return response.status >= 500 ? !kind.includes("json") : response.ok && kind.startsWith("text/html");
};

/** An answer of the server came, a refusal too. */
export function noteAnswer(): void {
  if (suspected === null) return;
  suspected = null;
  clearTimeout(timer);
  if (awaySince.value === null) return;
  awaySince.set(null);
  awaySince.draw();
  back.forEach((listener) => listener());
}

/** A call got no answer, or a stream broke: is the server away, or was it this one alone? */
export function noteSilence(): void {
  if (suspected !== null) return;
  suspected = Date.now() / 1000;
  void look(suspected);
}

async function look(since: number): Promise<void> {
  const there = await answers();
  if (suspected !== since) return;
  if (there) {
    noteAnswer();
    return;
  }
  if (awaySince.value === null) {
    awaySince.set(since);
    awaySince.draw();
  }
  timer = setTimeout(() => void look(since), AGAIN_MS);
}

/** Asks it, whoever is signed in. */
export async function answers(): Promise<boolean> {
  try {
    const response = await fetch("/api/v1/me", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return !isForeign(response);
  } catch {
    return false;
  }
}

/** A part of the page that is fetched when it is opened: while the server is away it is waited for. */
export async function patiently<T>(fetchPart: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await fetchPart();
    } catch (error) {
      if (await answers()) throw error;
      noteSilence();
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}
