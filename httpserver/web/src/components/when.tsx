import { moment } from "../domain/format";
import { away, clock, exactly, inFull, iso } from "../domain/starts";

/** A moment by the reader's clock and how far off it is; pointed at, the whole date. `exact`: to the second. */
export function When({ at, now, up = false, distance = true, exact = false }: { at: number; now: number; up?: boolean; distance?: boolean; exact?: boolean }) {
  return (
    <time className="when" dateTime={iso(at)} title={inFull(at)}>
      {exact ? exactly(at, now) : clock(at, now, { up })}
      {distance && (
        <>
          {" "}
          <span className="away">({away(at, now)})</span>
        </>
      )}
    </time>
  );
}

/** A moment that is over, in a list; a dash where there is none. */
export function Moment({ at, now }: { at: number | null | undefined; now?: number }) {
  if (at === null || at === undefined) return <>–</>;
  return (
    <time dateTime={iso(at)} title={inFull(at)}>
      {moment(at, now)}
    </time>
  );
}
