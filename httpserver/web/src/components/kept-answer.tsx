/** What is said beside an answer that is kept, since the next one does not come. */
import { isFinal, isSilence } from "../api/client";
import { awaySince } from "../api/reach";
import { useStore } from "../api/store";
import { ago } from "../domain/starts";
import { Failure, Sentence, useNow } from "./basics";
import { When } from "./when";

/** What of a query's result matters here. */
export interface Asked {
  readonly data: unknown;
  readonly error: Error | null;
  readonly dataUpdatedAt: number;
  readonly refetch: () => Promise<unknown>;
}

/** Whether there is something to show: the last answer, unless the server itself said that it is over. */
export const shows = (asked: Asked): boolean => asked.data !== undefined && !isFinal(asked.error);

/** The trouble of a query at its place. While the whole server is away the page says so once, for all. */
export function Trouble({ of }: { of: Asked }) {
  const away = useStore(awaySince) !== null;
  if (of.error === null) return null;
  const again = (): void => void of.refetch();
  if (!shows(of)) return <Failure error={of.error} again={again} />;
  if (isSilence(of.error) && away) return null;
  return (
    <div className="failure" role="status">
      <Sentence text={of.error.message} /> <From at={of.dataUpdatedAt / 1000} /> <button onClick={again}>Try again</button>
    </div>
  );
}

/** Of which moment that is what is seen, and how long ago it was. */
export function From({ at }: { at: number }) {
  const now = useNow(1000);
  return (
    <>
      What you see is from <When at={at} now={now} distance={false} exact /> <span aria-hidden="true">({ago(at, now)})</span>.
    </>
  );
}

/** While the server does not answer: since when, on top of the page, whatever is on it. */
export function AwayBanner() {
  const since = useStore(awaySince);
  const now = useNow(1000, since !== null);
  if (since === null) return null;
  return (
    <div className="away-banner" role="alert">
      Headway does not answer since <When at={since} now={now} distance={false} exact />; what you see is from then{" "}
      <span aria-hidden="true">({ago(since, now)})</span>. It is asked again and again.
    </div>
  );
}
