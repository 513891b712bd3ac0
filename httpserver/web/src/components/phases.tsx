import type { Attempt } from "../api/client";
import { span } from "../domain/format";

const names: readonly (readonly [keyof Attempt["phases"], string, string])[] = [
  ["scheduling_s", "waiting", "from ready to run until it got a machine"],
  ["dispatch_s", "handing over", "until the machine had taken it"],
  ["startup_s", "start-up", "until the image is fetched and the container is up"],
  ["preparing_s", "preparing", "from the container's start until the program runs"],
  ["running_s", "running", "the program's own run time"],
];

/** Where the time of one attempt went. */
export function Phases({ attempt, now }: { attempt: Attempt; now: number }) {
  const running = attempt.phases.running_s ?? (attempt.started_at !== null && attempt.ended_at === null ? now - attempt.started_at : null);
  const values = names.map(([key, name, what]) => ({
    key,
    name,
    what,
    seconds: key === "running_s" ? running : (attempt.phases[key] ?? null),
  }));
  const total = values.reduce((sum, v) => sum + Math.max(0, v.seconds ?? 0), 0);
  return (
    <div className="phases">
      <div className="phase-bar" aria-hidden="true">
        {values.map((v) => (
          <span key={v.key} className={`phase ${v.key}`} style={{ flexGrow: total > 0 ? Math.max(0, v.seconds ?? 0) / total : 0 }} />
        ))}
      </div>
      <dl>
        {values.map((v) => (
          <div key={v.key} title={v.what}>
            <dt>
              <span className={`dot ${v.key}`} /> {v.name}
            </dt>
            <dd>{span(v.seconds)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
