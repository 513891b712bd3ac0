import { useContext, useState } from "react";

import type { Attempt } from "../api/client";
import { metricsAddress, useAttemptMeasured } from "../api/measured";
import type { Efficiency } from "../domain/metrics";
import { type Range, roomy } from "../domain/series";
import { Sentence } from "./basics";
import { Charts } from "./charts";
import { EfficiencyCard } from "./efficiency";
import { JobGone } from "./job-notes";
import { Trouble, shows } from "./kept-answer";

/** So much time the charts show at least. */
const LEAST_S = 10;

/** What an attempt used, live and after. */
export function AttemptUse({ job, task, attempt }: { job: string; task: string; attempt: Attempt }) {
  const gone = useContext(JobGone);
  const [zoom, setZoom] = useState<Range | null>(null);
  const started = attempt.started_at !== null;
  const ended = attempt.ended_at !== null;
  const asked = useAttemptMeasured({ job, task, number: attempt.number, endedAt: attempt.ended_at, enabled: started && !gone, zoom });
  const [whole, setWhole] = useState<Range | null>(null);
  const at = asked.data?.measured.at ?? [];
  const [first, last] = [at[0], at.at(-1)];
  // A part that is looked at closely says nothing of the whole.
  if (zoom === null && !asked.isPlaceholderData && first !== undefined && last !== undefined) {
    const seen = roomy({ from: first, to: last }, LEAST_S);
    if (whole?.from !== seen.from || whole.to !== seen.to) setWhole(seen);
  }
  // A part has no card of its own.
  const [card, setCard] = useState<Efficiency | null>(null);
  const fresh = asked.data?.efficiency ?? null;
  if (fresh !== null && fresh !== card) setCard(fresh);
  if (!started) return ended ? null : <p className="facts">What it uses is shown here once its program runs.</p>;
  return (
    <section className="attempt-use" aria-label={`What attempt ${attempt.number} used`}>
      <h3>What it {ended ? "used" : "uses"}</h3>
      {(attempt.gpus_simulated || asked.data?.simulated) && <p className="note">Its GPUs are only simulated: what they tell is made up.</p>}
      {asked.isPending && !gone && <p>Loading …</p>}
      <Trouble of={asked} />
      {asked.data !== undefined && shows(asked) && (
        <>
          {card !== null && <EfficiencyCard of={card} />}
          {(asked.data.sentence || whole === null) && (
            <p className={whole === null ? "empty" : "note"}>
              <Sentence text={asked.data.sentence || "Nothing was measured."} />
            </p>
          )}
          {whole !== null && (
            <Charts measured={asked.data.measured} whole={whole} zoom={zoom} onZoom={setZoom}>
              {" "}
              All of it as{" "}
              <a href={`/api/v1${metricsAddress(job, task, attempt.number)}?format=csv`} download>
                CSV
              </a>{" "}
              or{" "}
              <a href={`/api/v1${metricsAddress(job, task, attempt.number)}?format=svg`} download>
                SVG
              </a>
              .
            </Charts>
          )}
        </>
      )}
    </section>
  );
}
