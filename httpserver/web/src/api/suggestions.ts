/** What the fields for images, datasets and secrets suggest. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { type Option, datasetOptions, imageOptions } from "../domain/options";
import { datasets } from "./datasets";
import { keys } from "./events";
import { market } from "./market";
import { nodesQuery } from "./nodes";
import { secrets } from "./secrets";

/** What is typed settles for so long before the server is asked. */
const TYPING_MS = 300;

interface Suggestions {
  readonly images: readonly Option[];
  /** Null until the server has said. */
  readonly datasets: readonly Option[] | null;
  readonly secrets: readonly string[] | null;
}

/** Images and datasets that this account can use; of images at most 100, those that fit what is `typed`. */
export function useSuggestions(me: string, typed: string): Suggestions {
  const [q, setQ] = useState("");
  useEffect(() => {
    // A tag is no part of what is searched.
    const timer = setTimeout(() => setQ(typed.split(":")[0]?.trim() ?? ""), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const all = useQuery({ queryKey: [...keys.images, "suggested", ""], queryFn: () => market.list({ limit: 100 }) });
  // Only where there are more than come at once is it worth asking for those that fit.
  const fitting = useQuery({
    queryKey: [...keys.images, "suggested", q],
    queryFn: () => market.list({ q, limit: 100 }),
    placeholderData: (old) => old,
    enabled: q !== "" && all.data?.next_cursor != null,
  });
  const nodes = useQuery(nodesQuery);
  const sets = useQuery({ queryKey: [...keys.datasets, ""], queryFn: () => datasets.list() });
  const own = useQuery({ queryKey: keys.secrets, queryFn: secrets.list });
  const images = useMemo(() => {
    const first = all.data?.images ?? [];
    const known = new Set(first.map((image) => image.id));
    const more = (fitting.data?.images ?? []).filter((image) => !known.has(image.id));
    return imageOptions([...first, ...more], nodes.data?.nodes ?? [], me);
  }, [all.data, fitting.data, nodes.data, me]);
  return {
    images,
    datasets: useMemo(() => (sets.data === undefined ? null : datasetOptions(sets.data, me)), [sets.data, me]),
    // One with a NUL byte can be no variable.
    secrets: useMemo(() => own.data?.filter((one) => !one.file_only).map((one) => one.name) ?? null, [own.data]),
  };
}
