import type { TimeoutAdvice } from "../api/client";
import { Sentence } from "./basics";

/** What past runs say of a timeout. It goes into the field when its button is pressed, never by itself. */
export function TimeoutHint({ advice, timeout, onTimeout }: { advice: TimeoutAdvice; timeout: string; onTimeout: (timeout: string) => void }) {
  const suggested = advice.suggested_timeout;
  return (
    <div className="coach" role="note" aria-label="What past runs say">
      <span>
        <Sentence text={advice.sentence} />
      </span>
      {suggested !== null && advice.suggested_timeout_s !== advice.timeout_s && suggested !== timeout.trim() && (
        <button type="button" className="small" onClick={() => onTimeout(suggested)}>
          Set the timeout to {suggested}
        </button>
      )}
    </div>
  );
}
