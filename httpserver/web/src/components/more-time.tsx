import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { ApiError, type Attempt, type JobDetail, api, body } from "../api/client";
import { keys, mergeAttempt } from "../api/events";
import { seconds } from "../domain/duration";
import { span } from "../domain/format";
import { attemptEnded, label } from "../domain/states";
import { freshId } from "../domain/id";
import { clock } from "../domain/starts";
import { HelpLink } from "./help-link";
import { Dialog } from "./dialog";
import { tell } from "./toasts";
import { Told } from "./told";
import { When } from "./when";

const PRESETS = ["10m", "30m", "1h"] as const;

/** Asks for more time for a running attempt of a task. What it costs others is told before it is given. */
export function MoreTime({
  job,
  task,
  attempt,
  admin,
  now,
  onClose,
}: {
  job: string;
  task: string;
  attempt: Attempt;
  admin: boolean;
  now: number;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [by, setBy] = useState<string>("30m");
  const [refused, setRefused] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const sending = useRef(false);
  // The same amount asked again, after an answer that got lost, is the same request: it is given once.
  const requests = useRef(new Map<string, string>());

  const want = (text: string): void => {
    setBy(text);
    setRefused(null);
  };
  const wish = by.trim();
  const more = seconds(wish);
  const send = async (force: boolean): Promise<void> => {
    if (sending.current || wish === "") return;
    sending.current = true;
    setBusy(true);
    setRefused(null);
    const key = requests.current.get(wish) ?? freshId();
    requests.current.set(wish, key);
    try {
      const answer = await body(
        api.POST("/api/v1/jobs/{job}/tasks/{task}/extend", {
          params: { path: { job, task }, header: { "idempotency-key": key } },
          body: { by: wish, force },
        }),
      );
      client.setQueryData<JobDetail>(
        keys.job(job),
        (old) => old && { ...old, tasks: old.tasks.map((t) => (t.name === task ? mergeAttempt(t, answer.attempt) : t)) },
      );
      tell(answer.sentence.replace(`${job}/`, ""), { bad: !answer.delivered });
      onClose();
    } catch (error) {
      setRefused(error as Error);
    } finally {
      sending.current = false;
      setBusy(false);
    }
  };

  if (attemptEnded(attempt.state) || attempt.state === "STOPPING") {
    return (
      <Dialog title={`More time for ${task}`} dismiss="Close" actions={null} onClose={onClose} onSubmit={onClose}>
        <p role="status">
          {attemptEnded(attempt.state) ? (
            <>
              The task has ended in the meantime
              {attempt.ended_at !== null && (
                <>
                  , at <When at={attempt.ended_at} now={now} distance={false} />
                </>
              )}
              : {label(attempt.state)}. More time has no effect now.
            </>
          ) : (
            "The task is being stopped. More time would not keep it running."
          )}
        </p>
      </Dialog>
    );
  }
  const moves = refused instanceof ApiError && refused.slug === "promises-move";
  const forcible = moves || (refused instanceof ApiError && refused.slug === "kept-for-short-tasks");
  return (
    <Dialog
      title={`More time for ${task}`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => void send(false)}
      actions={
        <>
          {forcible && admin && (
            <button type="button" className="danger" disabled={busy} onClick={() => void send(true)}>
              Give it anyway
            </button>
          )}
          <button className="main" disabled={busy || wish === ""}>
            {busy ? "Asking …" : "Give it"}
          </button>
        </>
      }
    >
      <p className="facts">
        {attempt.timeout_s !== null && <>The task may run {span(attempt.timeout_s)}</>}
        {attempt.deadline_at !== null && (
          <>
            {" "}
            and is stopped at <When at={attempt.deadline_at} now={now} /> if it is still running
          </>
        )}
        .
      </p>
      <label className="block">
        How much more
        <input
          value={by}
          autoFocus
          spellCheck={false}
          autoComplete="off"
          onFocus={(e) => e.target.select()}
          onChange={(e) => want(e.target.value)}
        />
      </label>
      <div className="actions presets" role="group" aria-label="How much more, by one click">
        {PRESETS.map((preset) => (
          <button key={preset} type="button" className="small" aria-pressed={wish === preset} onClick={() => want(preset)}>
            {preset}
          </button>
        ))}
        {more !== null && attempt.deadline_at !== null && (
          <span className="note">then until {clock(attempt.deadline_at + more, now)} at the latest</span>
        )}
        {more === null && wish !== "" && <span className="note">Write it as 45m, 2h or 1h30m.</span>}
        <HelpLink topic="timeout" />
      </div>
      {refused && (
        <div className="failure" role="alert">
          <Told text={refused.message} />
          {moves && admin && <p>As an admin you can give it anyway. The tasks that wait then get a later start, and their owners see why.</p>}
        </div>
      )}
    </Dialog>
  );
}
