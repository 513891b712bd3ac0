/** The file of another job for the submit page: asked for once for each visit, and again when somebody says so. */
import { useEffect, useRef, useState } from "react";

import { ApiError, api, toApiError } from "./client";

export interface Clone {
  /** Until the file came or another draft was chosen, nothing may be submitted here. */
  readonly missing: boolean;
  /** Why it did not come; empty: it is on its way, or was not asked for. */
  readonly why: string;
  readonly again: () => void;
  /** Another draft was chosen in its place. */
  readonly instead: () => void;
}

/** This entry of the browser's history has what it was opened for: a reload keeps it, another visit asks anew. */
const isSettled = (job: string): boolean => (Object(window.history.state) as { clone?: unknown }).clone === job;

function settle(job: string): void {
  window.history.replaceState({ ...(Object(window.history.state) as object), clone: job }, "");
}

/** `has`: the job whose file the draft began with. `blank`: nothing is in the draft that a reload would have to keep. */
export function useClone(job: string | undefined, has: string | undefined, blank: () => boolean, onText: (text: string) => void): Clone {
  const [missing, setMissing] = useState(() => job !== undefined && has !== job && (blank() || !isSettled(job)));
  const [why, setWhy] = useState("");
  const [asked, setAsked] = useState(0);
  const came = useRef(onText);
  useEffect(() => void (came.current = onText));
  useEffect(() => {
    if (job === undefined) return;
    if (!missing) return settle(job);
    const leaving = new AbortController();
    void fileOf(job, leaving.signal).then(
      (text) => {
        if (leaving.signal.aborted) return;
        came.current(text);
        setMissing(false);
      },
      (error: unknown) => {
        if (leaving.signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) void api.GET("/api/v1/me").catch(() => undefined);
        setWhy(error instanceof ApiError ? error.message : "Headway does not answer.");
      },
    );
    return () => leaving.abort();
  }, [job, missing, asked]);
  const again = (): void => {
    setWhy("");
    setAsked((old) => old + 1);
  };
  const instead = (): void => {
    setWhy("");
    setMissing(false);
  };
  return { missing, why, again, instead };
}

async function fileOf(job: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(`/api/v1/jobs/${encodeURIComponent(job)}/spec?format=yaml`, { signal });
  if (!response.ok) throw toApiError(await response.json().catch(() => null), response.status);
  return await response.text();
}
