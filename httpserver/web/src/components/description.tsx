import { Suspense, lazy, useState } from "react";

import { Failure } from "./basics";

const Markdown = lazy(() => import("./markdown"));

/** A description, and its editor for those who may change it. */
export function Description({ text, onSave }: { text: string; onSave: ((text: string) => Promise<unknown>) | null }) {
  const [draft, setDraft] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  if (draft === null) {
    return (
      <section className="description" aria-label="Description">
        {text ? (
          <Suspense fallback={<p className="note">Loading …</p>}>
            <Markdown text={text} />
          </Suspense>
        ) : (
          <p className="note">No description yet.</p>
        )}
        {onSave && (
          <button className="small" onClick={() => setDraft(text)}>
            Edit the description
          </button>
        )}
      </section>
    );
  }
  return (
    <form
      className="description"
      onSubmit={(e) => {
        e.preventDefault();
        setBusy(true);
        setError(null);
        onSave?.(draft)
          .then(() => setDraft(null), setError)
          .finally(() => setBusy(false));
      }}
    >
      <label>
        Description <small>Markdown</small>
        <textarea rows={8} value={draft} autoFocus onChange={(e) => setDraft(e.target.value)} />
      </label>
      {error && <Failure error={error} />}
      <div className="actions">
        <button className="main" disabled={busy}>
          Save
        </button>
        <button type="button" onClick={() => setDraft(null)}>
          Cancel
        </button>
      </div>
    </form>
  );
}
