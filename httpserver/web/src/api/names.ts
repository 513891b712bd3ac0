/** What jobs are called. The server's sentences name them by id; a job never changes its name. */
import { type QueryClient, useQuery } from "@tanstack/react-query";

import { api, body } from "./client";
import { keys } from "./events";

/** Keeps what an answer told by the way, so that nobody asks for it. */
export function learnNames(client: QueryClient, jobs: Iterable<readonly [id: string, name: string]>): void {
  for (const [id, name] of new Map(jobs)) {
    if (!client.getQueryData<string>(keys.jobName(id))) client.setQueryData(keys.jobName(id), name);
  }
}

/** One at a time: a page full of sentences must not hold up what a person asks for. */
let before: Promise<unknown> = Promise.resolve();

async function lookUp(id: string, signal: AbortSignal): Promise<string> {
  const mine = before.then(() => {
    if (signal.aborted) throw new DOMException("nobody looks at it any more", "AbortError");
    return body(api.GET("/api/v1/jobs", { params: { query: { q: id, limit: FOUND } }, signal }));
  });
  before = mine.catch(() => undefined);
  // Names can hold an id, too.
  return (await mine)?.jobs.find((job) => job.id === id)?.name ?? "";
}

const FOUND = 10;

/** The name of a job; "" where it is not known (yet). */
export function useJobName(id: string): string {
  const name = useQuery({
    queryKey: keys.jobName(id),
    queryFn: ({ signal }) => lookUp(id, signal),
    staleTime: "static",
    gcTime: 3_600_000,
    retry: false,
  });
  return name.data ?? "";
}
