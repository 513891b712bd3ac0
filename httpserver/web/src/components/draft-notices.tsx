/** What the writer of a job has to know about the draft before anything of it could be lost. */
import type { Clone } from "../api/clone";
import { type Kept, MOST_ASIDE } from "../domain/draft";
import { Sentence } from "./basics";

export interface Refusal {
  readonly why: string;
  readonly line: number | null;
}

/** By what its owner knows it: its name, else its first words. */
function nameOf(file: string): string {
  const named = /^(?:"?name"?|\s+"name")\s*:\s*(.+?),?\s*$/m.exec(file)?.[1] ?? file.trim();
  const line = named.split("\n")[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 57)}...` : line;
}

const KEPT_NOT = {
  large: "This draft is too large to be kept in this tab. Leaving or reloading this page loses it: copy it into a file of your own before.",
  never: "This browser keeps no draft. Leaving or reloading this page loses it: copy it into a file of your own before.",
  some: "What was put aside is too large to be kept with this draft. Leaving or reloading this page loses the oldest of it.",
};

export function DraftNotices({
  kept,
  isLarge,
  clone,
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
  /** What of the draft a reload brings back. */
  kept: Kept;
  isLarge: boolean;
  clone: Clone;
  /** Sentences about what was found. */
  told: readonly string[];
  /** Why the file stays a text. */
  refusal: Refusal | null;
  /** What the form leaves in the file without showing it. */
  notes: readonly string[];
  /** The files that were put aside, the last one first. */
  aside: readonly string[];
  blocked: boolean;
  onLine: (line: number) => void;
  onTakeBack: (index: number) => void;
  onForgetAside: (index: number) => void;
  onUnblock: () => void;
}) {
  return (
    <div className="draft-notices">
      {clone.why !== "" && (
        <p className="notice warn" role="alert">
          The file of that job did not come. <Sentence text={clone.why} />{" "}
          <button type="button" className="small" onClick={clone.again}>
            Try again
          </button>{" "}
          <button type="button" className="small" onClick={clone.instead}>
            Go on with this draft
          </button>
        </p>
      )}
      {clone.missing && clone.why === "" && (
        <p className="notice" role="status">
          The file of that job is on its way …
        </p>
      )}
      {kept !== "all" && (
        <p className="notice warn" role="alert">
          {KEPT_NOT[kept === "some" ? "some" : isLarge ? "large" : "never"]}
        </p>
      )}
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
      {aside.map((file, index) => (
        <p className="notice" role="note" key={file}>
          Another draft was put aside for this one: <bdi>{nameOf(file)}</bdi>{" "}
          <button type="button" className="small" onClick={() => onTakeBack(index)}>
            Take it instead
          </button>{" "}
          <button type="button" className="small" onClick={() => onForgetAside(index)}>
            Forget it
          </button>
          {index === MOST_ASIDE - 1 && " It goes when one more is put aside."}
        </p>
      ))}
    </div>
  );
}
