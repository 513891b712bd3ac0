/** The machines with what is measured there and what is booked on them. */
import { type UseQueryResult, queryOptions, useQuery } from "@tanstack/react-query";

import { type Known, keepBooked } from "../domain/known";
import { type NodeList, api, body } from "./client";
import { keys } from "./events";

/** All who ask for machines ask by this: what is kept under one key has one form. */
export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: async ({ client, signal }): Promise<Known<NodeList>> => {
    const fresh = (await body(api.GET("/api/v1/nodes", { signal }))) as NodeList;
    return keepBooked(client.getQueryData<Known<NodeList>>(keys.nodes), fresh, (client.getQueryState(keys.nodes)?.dataUpdatedAt ?? 0) / 1000);
  },
});

/** Events bring it up to date; now and then it is asked for again, since an event may be lost with its stream. */
export const useNodes = (): UseQueryResult<Known<NodeList>> => useQuery({ ...nodesQuery, refetchInterval: 10_000 });
