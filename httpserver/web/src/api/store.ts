/** A value outside of React that many parts of the page look at; it outlives the view that changed it. */
import { useSyncExternalStore } from "react";

/** What changes faster than this is drawn so often at most. */
const DRAW_MS = 120;

export class Store<T> {
  private readonly listeners = new Set<() => void>();
  private drawn: T;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private current: T) {
    this.drawn = current;
  }

  get value(): T {
    return this.current;
  }

  set(next: T): void {
    this.current = next;
    this.timer ??= setTimeout(this.draw, DRAW_MS);
  }

  /** At once: what a person did is seen before the next click, which would else meet a button of a moment ago. */
  readonly draw = (): void => {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.drawn = this.current;
    this.listeners.forEach((listener) => listener());
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): T => this.drawn;
}

export const useStore = <T>(store: Store<T>): T => useSyncExternalStore(store.subscribe, store.snapshot);
