import { useEffect, useRef, useState } from "react";

import { badName } from "../domain/paths";
import { Failure } from "./basics";
import { Dialog } from "./dialog";

/** Asks for the name of a file or folder. */
export function NameDialog({
  title,
  first = "",
  action,
  onName,
  onClose,
}: {
  title: string;
  first?: string;
  action: string;
  onName: (name: string) => Promise<unknown>;
  onClose: () => void;
}) {
  const [name, setName] = useState(first);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // The ending stays as a rule: only what stands before it is marked, to be typed over.
  useEffect(() => {
    field.current?.setSelectionRange(0, first.lastIndexOf(".") > 0 ? first.lastIndexOf(".") : first.length);
  }, [first]);
  const wrong = name === first && first !== "" ? "" : badName(name);
  const save = (): void => {
    if (wrong || name === "") return;
    if (name === first) {
      onClose();
      return;
    }
    setBusy(true);
    setError(null);
    onName(name)
      .then(onClose, setError)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      title={title}
      busy={busy}
      onClose={onClose}
      onSubmit={save}
      actions={
        <button className="main" disabled={busy || wrong !== ""}>
          {action}
        </button>
      }
    >
      <label className="block">
        New name
        <input
          ref={field}
          value={name}
          autoFocus
          spellCheck={false}
          onChange={(e) => setName(e.target.value)}
        />
      </label>
      {name !== "" && wrong && <p className="wrong-text">{wrong}</p>}
      {error && <Failure error={error} />}
    </Dialog>
  );
}
