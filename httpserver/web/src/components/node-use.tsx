import { useCallback, useState } from "react";

import type { Node } from "../api/client";
import { SPANS, type Span, useNodeMeasured } from "../api/measured";
import { wordIn } from "../domain/address";
import type { Range } from "../domain/series";
import { useAddress } from "./address";
import { Charts } from "./charts";
import { Trouble, shows } from "./kept-answer";

const spanText: Record<Span, string> = { hour: "hour", day: "day", week: "week", year: "year" };
const SPAN_WORDS = Object.keys(SPANS) as Span[];

/** What a machine used over time. */
export function NodeUse({ node }: { node: Node }) {
  const [given, change] = useAddress();
  const span = wordIn(given.get("of"), SPAN_WORDS, "hour");
  const [zoomed, setZoomed] = useState<{ readonly span: Span; readonly range: Range } | null>(null);
  // Another span is another picture.
  const zoom = zoomed?.span === span ? zoomed.range : null;
  const onZoom = useCallback((range: Range | null) => setZoomed(range && { span, range }), [span]);
  const asked = useNodeMeasured(node.id, span, zoom);
  const [whole, setWhole] = useState<{ readonly span: Span; readonly range: Range } | null>(null);
  const range = asked.data?.whole;
  if (zoom === null && range !== undefined && !asked.isPlaceholderData && (whole?.span !== span || whole.range !== range)) setWhole({ span, range });
  return (
    <section className="node-use" aria-label={`What ${node.id} used`}>
      <div className="title-row">
        <h2>What it used</h2>
        <label>
          Of the last{" "}
          <select aria-label="Of the last" value={span} onChange={(e) => change({ of: e.target.value === "hour" ? null : e.target.value })}>
            {SPAN_WORDS.map((word) => (
              <option key={word} value={word}>
                {spanText[word]}
              </option>
            ))}
          </select>
        </label>
      </div>
      {node.gpus.some((gpu) => gpu.simulated) && <p className="note">Its GPUs are only simulated: what they tell is made up.</p>}
      {asked.isPending && <p>Loading …</p>}
      <Trouble of={asked} />
      {asked.data !== undefined &&
        shows(asked) &&
        (asked.data.measured.at.length === 0 && zoom === null ? (
          <p className="empty">Nothing was measured in this time. Readings come while the machine is reached.</p>
        ) : (
          <Charts measured={asked.data.measured} whole={whole?.range ?? asked.data.whole} zoom={zoom} onZoom={onZoom}>
            {" "}
            All of it as{" "}
            <a href={`/api/v1/nodes/${encodeURIComponent(node.id)}/usage?format=csv&points=5000&since=${Math.floor((whole?.range ?? asked.data.whole).from)}`} download>
              CSV
            </a>
            .
          </Charts>
        ))}
    </section>
  );
}
