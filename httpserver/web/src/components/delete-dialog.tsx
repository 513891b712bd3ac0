import { type ReactNode, useState } from "react";
import { Link } from "wouter";

import { ApiError } from "../api/client";
import { Sentence } from "./basics";
import { Dialog } from "./dialog";

/** Asks before something goes; what running jobs still need can go when they have ended. */
export function DeleteDialog({
  what,
  children,
  jobs,
  onDelete,
  onDone,
  onClose,
}: {
  what: string;
  children?: ReactNode;
  /** Ids of jobs that are known to need it. */
  jobs: readonly string[];
  /** `null` where waiting is not offered. */
  onDelete: { now: () => Promise<unknown>; wait: (() => Promise<unknown>) | null };
  onDone: () => void;
  onClose: () => void;
}) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const run = (action: () => Promise<unknown>): void => {
    setBusy(true);
    setError(null);
    action()
      .then(onDone, setError)
      .finally(() => setBusy(false));
  };
  const needed = error instanceof ApiError && error.status === 409;
  return (
    <Dialog
      title={`Delete ${what}?`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => run(onDelete.now)}
      actions={
        needed && onDelete.wait !== null ? (
          <button type="button" className="main" disabled={busy} onClick={() => onDelete.wait && run(onDelete.wait)}>
            Delete when they have ended
          </button>
        ) : (
          <button className="danger" disabled={busy}>
            Delete
          </button>
        )
      }
    >
      {children}
      {error && (
        <div className="failure" role="alert">
          <Sentence text={error.message} />
          {needed && jobs.length > 0 && (
            <ul>
              {jobs.map((job) => (
                <li key={job}>
                  <Link href={`/jobs/${job}`}>{job}</Link>
                </li>
              ))}
            </ul>
          )}
          {needed && onDelete.wait !== null && <p>You can remove it from the lists now. Its content is deleted when the last of these jobs ends.</p>}
        </div>
      )}
    </Dialog>
  );
}
