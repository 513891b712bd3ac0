/** The machines with what is measured there and what is booked on them. */
import { type UseQueryResult, queryOptions, useQuery } from "@tanstack/react-query";

import { type NodeList, api, body } from "./client";
import { keys } from "./events";

/** All who ask for machines ask by this: what is kept under one key has one form. */
export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: async ({ signal }): Promise<NodeList> => (await body(api.GET("/api/v1/nodes", { signal }))) as NodeList,
});

/** Events bring it up to date; now and then it is asked for again, since an event may be lost with its stream. */
export const useNodes = (): UseQueryResult<NodeList> => useQuery({ ...nodesQuery, refetchInterval: 10_000 });
