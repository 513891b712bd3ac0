/** The waiting tasks: one page in the queue's order, or all of them to look through. */
import { type UseQueryResult, keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";

import { type Queue, api, body } from "./client";
import { keys } from "./events";
import { learnNames } from "./names";

/** Rows of a page. */
export const PAGE = 100;
/** So many running tasks are shown at most. */
const RUNNING = 100;
/** How many the server gives at once at most. */
const PART = 1000;
/** Looked through at first; who wants to see further says so. */
export const REACH = 5 * PART;

type Ask = (limit: number, offset: number) => Promise<Queue>;

/** The first `reach` of the queue, in parts. The queue moves meanwhile: what then comes twice stays where it was last. */
export async function readQueue(ask: Ask, reach: number): Promise<Queue> {
  const found = new Map<string, Queue["entries"][number]>();
  let first: Queue | undefined;
  for (let offset = 0; ; offset += PART) {
    const part = await ask(PART, offset);
    first ??= part;
    for (const entry of part.entries) {
      const key = `${entry.job_id}/${entry.task}`;
      found.delete(key);
      found.set(key, entry);
    }
    if (part.entries.length < PART || offset + PART >= reach) {
      return { ...part, entries: [...found.values()], running: first.running, running_matching: first.running_matching };
    }
  }
}

/** `owner`: an account; empty: everybody's tasks. `whole`: null for the page at `offset` alone; else how far to read. */
export function useQueue({ owner, offset, whole }: { owner: string; offset: number; whole: number | null }): UseQueryResult<Queue> {
  const client = useQueryClient();
  const asking =
    (signal: AbortSignal): Ask =>
    async (limit, from) => {
      const part = (await body(api.GET("/api/v1/queue", { params: { query: { limit, offset: from, owner, running: limit === PART && from > 0 ? 0 : RUNNING } }, signal }))) as Queue;
      learnNames(
        client,
        part.entries.map((entry) => [entry.job_id, entry.job_name]),
      );
      return part;
    };
  const page = useQuery({
    queryKey: [...keys.queue, owner, offset],
    enabled: whole === null,
    queryFn: ({ signal }) => asking(signal)(PAGE, offset),
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
  // Not with each event: it is many times a page.
  const all = useQuery({
    queryKey: [...keys.wholeQueue, owner, whole],
    enabled: whole !== null,
    queryFn: ({ signal }) => readQueue(asking(signal), whole ?? 0),
    // The page stays on screen, and with it the field that is being typed into.
    placeholderData: (old) => old ?? page.data,
    refetchInterval: 15_000,
  });
  return whole === null ? page : all;
}
