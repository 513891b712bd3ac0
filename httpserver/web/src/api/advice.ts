/** What a job would get if it were submitted now: asked while it is written, stored nowhere. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import type { Compared, Comparison } from "../domain/variants";
import { ApiError, type Preview, type Submitted, askJson } from "./client";
import { keys } from "./events";

/** What is typed settles for so long before the server is asked. */
const TYPING_MS = 600;
/** The queue moves on meanwhile. */
const AGAIN_MS = 20_000;

/** The last value that stood still for a while; `paused`: it stays as it is. */
export function useSettled<T>(value: T, paused = false, afterMs = TYPING_MS): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    if (paused) return;
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, paused, afterMs]);
  return settled;
}

export interface Advice {
  /** Null until there is one. Of the job before, while the next is asked for: nothing flickers. */
  readonly checked: Submitted | null;
  /** Why there is no answer: as it stands the server would not take it, or it can't be asked. */
  readonly refused: ApiError | null;
  readonly asking: boolean;
}

/** `file`: the job file; empty: not to be asked (yet). What was asked of an older one is called off. */
export function useAdvice(file: string): Advice {
  const answer = useQuery({
    queryKey: [...keys.advice, "job", file],
    enabled: file !== "",
    queryFn: ({ signal }) =>
      askJson<Submitted>("POST", "/jobs", {
        query: { dry_run: true },
        body: file,
        headers: { "Content-Type": "application/yaml" },
        signal,
        quiet: true,
      }),
    placeholderData: keepPreviousData,
    refetchInterval: AGAIN_MS,
    gcTime: 60_000,
    retry: false,
  });
  return {
    checked: file === "" ? null : (answer.data ?? null),
    refused: file !== "" && answer.isError && answer.data === undefined ? asApiError(answer.error) : null,
    asking: answer.isFetching,
  };
}

const asApiError = (error: Error): ApiError => (error instanceof ApiError ? error : new ApiError(error.message, 0, "unknown"));

/** The same of one task with other timeouts and numbers of GPUs. `comparison`: as JSON text; null until it is known. */
export function useCompared(comparison: string): Compared | null {
  const answer = useQuery({
    queryKey: [...keys.advice, "compared", comparison],
    enabled: comparison !== "",
    queryFn: async ({ signal }): Promise<Compared> => {
      const { asked, ...rest } = JSON.parse(comparison) as Comparison;
      const preview = await askJson<Preview>("POST", "/queue/preview", { json: { variants: asked }, signal, quiet: true });
      return { ...rest, starts: preview.starts };
    },
    placeholderData: keepPreviousData,
    refetchInterval: 3 * AGAIN_MS,
    gcTime: 60_000,
    retry: false,
  });
  return comparison === "" ? null : (answer.data ?? null);
}
