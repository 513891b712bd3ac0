import { away, clock, inFull } from "../domain/starts";

/** A moment by the reader's clock and how far off it is; pointed at, the whole date with its time zone. */
export function When({ at, now, up = false, distance = true }: { at: number; now: number; up?: boolean; distance?: boolean }) {
  return (
    <time className="when" dateTime={new Date(at * 1000).toISOString()} title={inFull(at)}>
      {clock(at, now, { up })}
      {distance && (
        <>
          {" "}
          <span className="away">({away(at, now)})</span>
        </>
      )}
    </time>
  );
}
