/** Asks for the times of the lines that are on the page. */
import { useEffect, useRef, useState } from "react";

import { type LogPlace, logTimes } from "../api/log";
import { LineTimes } from "../domain/logtimes";

const SLOT = "headway.log.times";
/** A log that grows is asked about so often. */
const AGAIN_MS = 1000;

/** Whether the reader wants times; kept in this browser. */
export const showsTimes = {
  get: (): boolean => {
    try {
      return localStorage.getItem(SLOT) === "on";
    } catch {
      return false;
    }
  },
  keep: (on: boolean): void => {
    try {
      localStorage.setItem(SLOT, on ? "on" : "off");
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  },
};

/** Times of the bytes from `begin` to `end`; those that nobody knows stay blank. */
export function useLineTimes({ job, task, attempt, stream }: LogPlace, on: boolean, begin: number, end: number): LineTimes {
  const [times, setTimes] = useState(LineTimes.none);
  const known = useRef(times);
  const window = useRef({ begin, end });
  window.current = { begin, end };
  const wake = useRef<() => void>(() => undefined);

  useEffect(() => {
    if (!on) return;
    const stop = new AbortController();
    const where = { job, task, attempt, stream };
    known.current = LineTimes.none;
    /** Until it is woken, or so long. */
    const nap = (ms: number | null): Promise<void> =>
      new Promise((resolve) => {
        const timer = ms === null ? undefined : setTimeout(() => up(), ms);
        const up = (): void => {
          clearTimeout(timer);
          stop.signal.removeEventListener("abort", up);
          resolve();
        };
        if (ms === null) wake.current = up;
        stop.signal.addEventListener("abort", up);
      });
    const run = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        const want = known.current.missing(window.current.begin, window.current.end);
        if (want === null) {
          await nap(null);
          continue;
        }
        try {
          const part = await logTimes(where, want.from, want.to - want.from, stop.signal);
          if (stop.signal.aborted) return;
          const more = known.current.with(want.from, part);
          if (more === known.current) await nap(AGAIN_MS);
          known.current = more;
          setTimes(more);
        } catch {
          // The log is shown without them.
          await nap(5 * AGAIN_MS);
        }
      }
    };
    void run();
    return () => stop.abort();
  }, [on, job, task, attempt, stream]);
  useEffect(() => wake.current(), [begin, end]);
  return times;
}
