import { type ReactNode, useState } from "react";

import { Failure } from "./basics";
import { Dialog } from "./dialog";

/** Asks before several sessions or tokens end at once. */
export function EndAllDialog({
  title,
  children,
  onEnd,
  onClose,
}: {
  title: string;
  children: ReactNode;
  onEnd: () => Promise<unknown>;
  onClose: () => void;
}) {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  return (
    <Dialog
      title={title}
      busy={busy}
      onClose={onClose}
      onSubmit={() => {
        setBusy(true);
        setError(null);
        onEnd()
          .then(onClose, setError)
          .finally(() => setBusy(false));
      }}
      actions={
        <button className="danger" disabled={busy}>
          End them
        </button>
      }
    >
      {children}
      {error && <Failure error={error} />}
    </Dialog>
  );
}
