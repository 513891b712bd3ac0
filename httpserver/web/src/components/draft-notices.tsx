/** What the writer of a job has to know about the draft before anything of it could be lost. */

export interface Refusal {
  readonly why: string;
  readonly line: number | null;
}

export function DraftNotices({
  told,
  refusal,
  notes,
  aside,
  blocked,
  onLine,
  onTakeBack,
  onForgetAside,
  onUnblock,
}: {
  /** Sentences about what was found. */
  told: readonly string[];
  /** Why the file stays a text. */
  refusal: Refusal | null;
  /** What the form leaves in the file without showing it. */
  notes: readonly string[];
  aside: string;
  blocked: boolean;
  onLine: (line: number) => void;
  onTakeBack: () => void;
  onForgetAside: () => void;
  onUnblock: () => void;
}) {
  return (
    <div className="draft-notices">
      {told.filter(Boolean).map((sentence) => (
        <p className="notice" role="status" key={sentence}>
          {sentence}
          {blocked && (
            <>
              {" "}
              What you write now is not kept over a reload.{" "}
              <button type="button" className="small" onClick={onUnblock}>
                Delete the old draft and keep this one
              </button>
            </>
          )}
        </p>
      ))}
      {refusal !== null && (
        <p className="notice warn" role="alert">
          The form can’t show this file. {refusal.why} Nothing was changed; go on here.{" "}
          {refusal.line !== null && (
            <button type="button" className="small" onClick={() => onLine(refusal.line ?? 1)}>
              Go to line {refusal.line}
            </button>
          )}
        </p>
      )}
      {notes.map((note) => (
        <p className="notice" role="note" key={note}>
          {note}
        </p>
      ))}
      {aside !== "" && (
        <p className="notice" role="note">
          Another draft was put aside for this one.{" "}
          <button type="button" className="small" onClick={onTakeBack}>
            Take it instead
          </button>{" "}
          <button type="button" className="small" onClick={onForgetAside}>
            Forget it
          </button>
        </p>
      )}
    </div>
  );
}
