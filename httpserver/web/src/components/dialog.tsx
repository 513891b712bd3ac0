import { type FormEvent, type ReactNode, useEffect, useId, useRef } from "react";

/** Asks something above the page. Escape closes it. */
export function Dialog({
  title,
  children,
  actions,
  onClose,
  onSubmit,
}: {
  title: string;
  children: ReactNode;
  actions: ReactNode;
  onClose: () => void;
  onSubmit: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    if (element !== null && !element.open) element.showModal();
  }, []);
  return (
    <dialog ref={dialog} className="ask" aria-labelledby={heading} onClose={onClose}>
      <form
        onSubmit={(e: FormEvent) => {
          e.preventDefault();
          e.stopPropagation();
          onSubmit();
        }}
      >
        <h2 id={heading}>{title}</h2>
        {children}
        <div className="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          {actions}
        </div>
      </form>
    </dialog>
  );
}
