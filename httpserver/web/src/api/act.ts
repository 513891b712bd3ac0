/** What a person does by a button: once, however often it is pressed until it is done. */
import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { isSilence } from "./client";

export interface Act<T> {
  /** Does it, unless the very same is under way. */
  readonly run: (wanted: T) => void;
  readonly busy: boolean;
  /** Whether just this is under way. */
  readonly runs: (wanted: T) => boolean;
  readonly error: Error | null;
}

/**
 * An act and what comes after it, done or refused (`after`: usually, that what is on screen is asked for anew); until both
 * are over the same does not begin again. A mutation alone is drawn as pending a moment after the press, so that a quick
 * second one would do it twice. `alone`: nothing else of this kind begins meanwhile either. `state`: of what is acted on;
 * once it is another, that answers whether an act that nobody answered was done.
 */
export function useAct<T, R>(
  act: (wanted: T) => Promise<R>,
  { after, done, alone = true, state }: { after: () => Promise<unknown>; done?: (result: R) => void; alone?: boolean; state?: (of: T) => unknown },
): Act<T> {
  const under = useRef(new Set<string>());
  const [shown, setShown] = useState<ReadonlySet<string>>(under.current);
  const keyOf = (wanted: T): string => (alone ? "" : JSON.stringify(wanted));
  const draw = (): void => setShown(new Set(under.current));
  // The mutation tells its error after what comes after it, which takes long where the server is silent.
  const [error, setError] = useState<Error | null>(null);
  /** What the last act was of, and how that stood. */
  const began = useRef<{ readonly of: T; readonly state: unknown } | null>(null);
  const mutation = useMutation({
    mutationFn: (wanted: T) =>
      act(wanted).catch((reason: unknown) => {
        setError(reason instanceof Error ? reason : new Error(String(reason)));
        throw reason;
      }),
    onSuccess: (result) => done?.(result),
    onSettled: () => after(),
  });
  return {
    run: (wanted) => {
      const key = keyOf(wanted);
      if (under.current.has(key)) return;
      under.current.add(key);
      began.current = { of: wanted, state: state?.(wanted) };
      setError(null);
      draw();
      void mutation
        .mutateAsync(wanted)
        .catch(() => undefined)
        .finally(() => {
          under.current.delete(key);
          draw();
        });
    },
    busy: shown.size > 0,
    runs: (wanted) => shown.has(keyOf(wanted)),
    error: isSilence(error) && began.current !== null && began.current.state !== state?.(began.current.of) ? null : error,
  };
}
