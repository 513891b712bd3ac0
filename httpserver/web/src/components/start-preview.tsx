import type { Advice } from "../api/advice";
import type { ApiError, PreviewStart } from "../api/client";
import { gpus as countGpus } from "../domain/format";
import { bare } from "../domain/scheduling";
import { ordinal } from "../domain/starts";
import type { Compared } from "../domain/variants";
import { Problems, Sentence, useNow } from "./basics";
import { Told } from "./told";
import { When } from "./when";

const SHOWN = 6;
const FEW_PROBLEMS = 3;

/** Not so where nobody could say, or who asks is signed out. */
const wouldNotBeTaken = ({ status }: ApiError): boolean => status >= 400 && status < 500 && status !== 401;

/** When the job that is being written would start, were it submitted now; and with other timeouts. */
export function StartPreview({
  advice,
  ready,
  task,
  blocked = null,
  compared,
  onTimeout,
}: {
  advice: Advice;
  /** Whether enough is filled in. */
  ready: boolean;
  /** The task that is compared with others like it; empty where there is nothing to compare. */
  task: string;
  /** What it would get if it were ready now, where it needs others first; null: it needs none. */
  blocked?: PreviewStart | null;
  compared: Compared | null;
  onTimeout: (timeout: string) => void;
}) {
  const now = useNow(5000);
  const preview = ready ? (advice.checked?.preview ?? null) : null;
  return (
    <section className="starts" aria-label="When it would start" aria-busy={advice.asking}>
      <h2>When it would start</h2>
      {!ready && <p className="note">The estimate appears once image, command and timeout are filled in.</p>}
      {ready && advice.refused && <Refused error={advice.refused} />}
      {ready && !advice.refused && advice.checked === null && <p className="note">{advice.asking ? "Asking …" : "No estimate now."}</p>}
      {ready && !advice.refused && advice.checked !== null && preview === null && <p className="note">The queue does not answer now.</p>}
      {preview && !advice.refused && (
        <>
          {preview.starts.slice(0, SHOWN).map((start) => (
            <One key={start.task} start={start} now={now} named={preview.starts.length + preview.after_needs_count > 1} />
          ))}
          {preview.queued_count > SHOWN && <p>And {preview.queued_count - SHOWN} more tasks that would be queued at once.</p>}
          {preview.after_needs_count > 0 && (
            <p className="note">
              Start after the tasks that they need: {preview.after_needs.slice(0, SHOWN).join(", ")}
              {preview.after_needs_count > SHOWN && ` and ${preview.after_needs_count - SHOWN} more`}.
            </p>
          )}
          {blocked && (
            <div className="start" role="note" aria-label="Once its needs have ended">
              <p>
                <b>{task || "It"}</b> waits for the tasks that it needs. If they had ended already: <Start start={blocked} now={now} />
              </p>
            </div>
          )}
          {compared && <Table task={task} compared={compared} now={now} onTimeout={onTimeout} />}
          <p className="note">
            This holds if you submit now. Tasks that others submit may change it.
            {bare(preview.policy) === "aging_sjf" && " A task with a shorter timeout starts sooner."}
          </p>
        </>
      )}
    </section>
  );
}

/** Why there is nothing to tell; the form marks the places once Check is pressed. */
function Refused({ error }: { error: ApiError }) {
  const { problems } = error;
  if (!wouldNotBeTaken(error)) {
    return (
      <p className="note">
        No estimate now. <Sentence text={error.message} />
      </p>
    );
  }
  return (
    <>
      <p className="note">Headway would not accept the job as it is.</p>
      {problems.length === 0 ? (
        <p>
          <Told text={error.message} />
        </p>
      ) : (
        <Problems problems={problems.slice(0, FEW_PROBLEMS)} />
      )}
      {problems.length > FEW_PROBLEMS && <p className="note">And {problems.length - FEW_PROBLEMS} more. Press Check to see all.</p>}
    </>
  );
}

function One({ start, now, named }: { start: PreviewStart; now: number; named: boolean }) {
  return (
    <div className="start">
      <p>
        {named && <b>{start.task}: </b>}
        <Start start={start} now={now} />
      </p>
      {start.waits.length > 0 && !start.refused && (
        <ul>
          {start.waits.map((wait, i) => (
            <li key={i}>
              <Told text={wait.sentence} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Start({ start, now }: { start: PreviewStart; now: number }) {
  if (start.refused) {
    return (
      <>
        Headway would not accept it. <Told text={start.refused} />
      </>
    );
  }
  if (start.at_once) return <b className="at-once">It would start at once.</b>;
  return (
    <>
      It would be <b>{start.position === null ? "somewhere" : ordinal(start.position)}</b> in the queue
      {start.estimated_start_at === null ? (
        "; its start is not known"
      ) : (
        <>
          , start {start.estimate_rough ? "very roughly" : "about"} <When at={start.estimated_start_at} now={now} />
        </>
      )}
      {start.promised_start_at !== null && (
        <>
          , promised: no later than <When at={start.promised_start_at} now={now} up />
        </>
      )}
      {start.promised_start_at === null && start.promise_from_at !== null && (
        <>
          ; from <When at={start.promise_from_at} now={now} up /> on its start is promised
        </>
      )}
      {start.promised_start_at === null && start.promise_from_at === null && start.estimated_start_at !== null && "; no start would be promised at once"}
      .
    </>
  );
}

/** Timeouts down, numbers of GPUs across. */
function Table({ task, compared, now, onTimeout }: {
  task: string;
  compared: Compared;
  now: number;
  onTimeout: (timeout: string) => void;
}) {
  const { timeouts, gpus, own, starts } = compared;
  const across = gpus.length > 1;
  return (
    <table className="compare">
      <caption>
        {across ? "With other timeouts and GPUs" : "With another timeout"}
        {task && (
          <>
            , <code>{task}</code>
          </>
        )}
      </caption>
      {across && (
        <thead>
          <tr>
            <th scope="col">timeout</th>
            {gpus.map((count) => (
              <th key={count} scope="col">
                {countGpus(count)}
              </th>
            ))}
          </tr>
        </thead>
      )}
      <tbody>
        {timeouts.map((timeout, row) => {
          const mine = timeout === own;
          return (
            <tr key={timeout} className={mine ? "chosen" : ""}>
              <th scope="row">
                {mine ? (
                  timeout
                ) : (
                  <button type="button" className="link" title="Use this timeout" onClick={() => onTimeout(timeout)}>
                    {timeout}
                  </button>
                )}
              </th>
              {gpus.map((count, column) => (
                <td key={count}>
                  <Cell start={starts[row * gpus.length + column]} now={now} />
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Cell({ start, now }: { start: PreviewStart | undefined; now: number }) {
  if (start === undefined) return <>–</>;
  if (start.refused) return <span title={start.refused}>not accepted</span>;
  if (start.at_once) return <>at once</>;
  if (start.estimated_start_at === null) return <>not known</>;
  return (
    <>
      {start.estimate_rough && <abbr title="A rough estimate">~ </abbr>}
      <When at={start.estimated_start_at} now={now} distance={false} />
      {start.promised_start_at !== null && (
        <small>
          {" "}
          by <When at={start.promised_start_at} now={now} up distance={false} />
        </small>
      )}
    </>
  );
}
