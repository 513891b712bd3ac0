/** What attempts and machines used over time. Points that are new are asked for by themselves, while somebody sees them. */
import { type UseQueryResult, keepPreviousData, useQuery } from "@tanstack/react-query";

import { type Efficiency, type MetricsAnswer, fromMetrics } from "../domain/metrics";
import { fromUsage } from "../domain/node-usage";
import { type Measured, type Range, joined, since } from "../domain/series";
import { api, askJson, body, untilAnswered } from "./client";
import { keys } from "./events";
import type { components } from "./generated/schema";

type NodeUsage = components["schemas"]["NodeUsage"];

/** As many as a chart has room for. */
export const POINTS = 600;
/** More than these in one picture are asked for anew, thinned. */
const MOST_POINTS = 3 * POINTS;
export const LIVE_MS = 2000;
/** How often all of it is asked for, with its sums, while it runs. */
const WHOLE_MS = 60_000;
/** What an attempt measured last comes to the shared folder a while after its end. */
const LAST_COMES_MS = 10_000;
const LAST_COMES_WITHIN_S = 90;

export interface AttemptMeasured {
  readonly measured: Measured;
  readonly efficiency: Efficiency | null;
  /** Why there is nothing, or what is missing; empty: all is there. */
  readonly sentence: string;
  /** Its GPUs are only pretended. */
  readonly simulated: boolean;
  /** When all of it was asked for, in ms. */
  readonly askedAt: number;
}

/** After /api/v1. */
export const metricsAddress = (job: string, task: string, number: number): string =>
  `/jobs/${encodeURIComponent(job)}/tasks/${encodeURIComponent(task)}/attempts/${number}/metrics`;

export function useAttemptMeasured(of: {
  readonly job: string;
  readonly task: string;
  readonly number: number;
  /** Null: it runs. */
  readonly endedAt: number | null;
  readonly enabled: boolean;
  readonly zoom: Range | null;
}): UseQueryResult<AttemptMeasured> {
  const { job, task, number, endedAt, enabled, zoom } = of;
  const live = endedAt === null;
  return useQuery<AttemptMeasured>({
    queryKey: keys.measured(job, task, number, !live, zoom),
    enabled,
    placeholderData: keepPreviousData,
    structuralSharing: false,
    staleTime: live ? 0 : 60_000,
    refetchInterval: (query) => {
      if (query.state.status === "error") return untilAnswered(query);
      if (zoom !== null) return false;
      if (live) return LIVE_MS;
      return Date.now() / 1000 < endedAt + LAST_COMES_WITHIN_S ? LAST_COMES_MS : false;
    },
    queryFn: async ({ client, signal, queryKey }) => {
      const ask = (query: { readonly since?: number; readonly until?: number }): Promise<MetricsAnswer> =>
        askJson("GET", metricsAddress(job, task, number), {
          query: { points: POINTS, ...query },
          signal,
          quiet: true,
        });
      const told = (answer: MetricsAnswer): AttemptMeasured => ({
        measured: fromMetrics(answer),
        efficiency: answer.efficiency,
        sentence: answer.sentence,
        simulated: answer.gpus.some((gpu) => gpu.simulated),
        askedAt: Date.now(),
      });
      if (zoom !== null) return told(await ask({ since: zoom.from, until: zoom.to }));
      const old = client.getQueryData<AttemptMeasured>(queryKey);
      const last = old?.measured.at.at(-1);
      const stale = old === undefined || last === undefined || old.measured.at.length > MOST_POINTS || Date.now() - old.askedAt > WHOLE_MS;
      if (!live || stale) return told(await ask({}));
      const fresh = told(await ask({ since: last }));
      // Sums and asked against used are told of the whole alone.
      const sentence = fresh.measured.at.length > 0 ? fresh.sentence : old.sentence;
      return { ...old, sentence, measured: joined(old.measured, fresh.measured) };
    },
  });
}

export const SPANS = { hour: 3600, day: 86_400, week: 7 * 86_400, year: 365 * 86_400 } as const;
export type Span = keyof typeof SPANS;
/** How often new points are asked for: a machine is read some times a minute, means come more seldom. */
const NODE_MS: Record<Span, number> = { hour: 5000, day: 60_000, week: 300_000, year: 600_000 };

export interface NodeMeasured {
  readonly measured: Measured;
  /** What was asked for. */
  readonly whole: Range;
}

export function useNodeMeasured(id: string, span: Span, zoom: Range | null): UseQueryResult<NodeMeasured> {
  return useQuery<NodeMeasured>({
    queryKey: keys.nodeMeasured(id, span, zoom),
    placeholderData: keepPreviousData,
    structuralSharing: false,
    refetchInterval: (query) => {
      if (query.state.status === "error") return untilAnswered(query);
      return zoom === null ? NODE_MS[span] : false;
    },
    queryFn: async ({ client, signal, queryKey }) => {
      const ask = async (query: { readonly since?: number; readonly until?: number }): Promise<Measured> =>
        fromUsage(
          (await body(
            api.GET("/api/v1/nodes/{id}/usage", { params: { path: { id }, query: { points: POINTS, ...query } }, signal }),
          )) as NodeUsage,
        );
      if (zoom !== null) return { measured: await ask({ since: zoom.from, until: zoom.to }), whole: zoom };
      const now = Date.now() / 1000;
      const old = client.getQueryData<NodeMeasured>(queryKey);
      const last = old?.measured.at.at(-1);
      // The server's clock may be ahead of the reader's.
      const told = (measured: Measured): NodeMeasured => {
        const to = Math.max(now, measured.at.at(-1) ?? 0);
        return { measured: since(measured, to - SPANS[span]), whole: { from: to - SPANS[span], to } };
      };
      // Without a beginning it is the last hour by the server's own clock.
      if (span !== "hour") return told(await ask({ since: now - SPANS[span] }));
      if (old === undefined || last === undefined || last < now - SPANS.hour || old.measured.at.length > MOST_POINTS) return told(await ask({}));
      return told(joined(old.measured, await ask({ since: last })));
    },
  });
}
