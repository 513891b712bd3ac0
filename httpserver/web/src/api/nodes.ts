/** The machines with what is measured there and what is booked on them. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";

import { type NodeList, api, body } from "./client";
import { keys } from "./events";

/** Events bring it up to date; now and then it is asked for again, since an event may be lost with its stream. */
export function useNodes(): UseQueryResult<NodeList> {
  return useQuery({
    queryKey: keys.nodes,
    queryFn: async ({ signal }) => (await body(api.GET("/api/v1/nodes", { signal }))) as NodeList,
    refetchInterval: 10_000,
  });
}
