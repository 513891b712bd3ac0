import { type FormEvent, type ReactNode, useEffect, useId, useRef } from "react";

import { firstPress } from "../domain/press";

/**
 * Asks something above the page. Escape closes it, but not while something is under way or a secret is shown: its answer
 * would be lost. The focus is in what is asked, and afterwards where it was before.
 */
export function Dialog({
  title,
  children,
  actions,
  dismiss = "Cancel",
  busy = false,
  secret = false,
  onClose,
  onSubmit,
}: {
  title: string;
  children: ReactNode;
  /** Null: there is nothing (any more) that could be done here. */
  actions: ReactNode;
  /** What closing it is called. */
  dismiss?: string;
  /** What was asked for is under way. */
  busy?: boolean;
  /** Something is shown this once; together with `busy`: it is about to be, and then no button closes this either. */
  secret?: boolean;
  onClose: () => void;
  onSubmit: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const head = useRef<HTMLHeadingElement>(null);
  const focused = useRef<Element | null>(null);
  const heading = useId();
  const stays = busy || secret;
  useEffect(() => {
    const opener = document.activeElement;
    const element = dialog.current;
    if (element !== null && !element.open) element.showModal();
    focused.current = document.activeElement;
    // A dialog that is taken off the page gives nothing back by itself; one that closed has done so.
    return () => {
      if (opener instanceof HTMLElement && nothingFocused()) opener.focus();
    };
  }, []);
  // What was pressed may be gone with the question that it answered: the next one begins at its head. What was only out of
  // use for a moment gets the focus back.
  useEffect(() => {
    const last = focused.current;
    if (!dialog.current?.open || last === null || !nothingFocused()) return;
    if (!dialog.current.contains(last) && head.current !== null) {
      head.current.tabIndex = -1; // only now: it would be the first thing to get the focus, before any field
      head.current.focus();
    } else if (!last.matches(":disabled") && last instanceof HTMLElement) last.focus();
  });
  return (
    <dialog
      ref={dialog}
      className="ask"
      aria-labelledby={heading}
      onCancel={(e) => {
        if (stays && e.target === e.currentTarget) e.preventDefault();
      }}
      onClose={() => {
        // Browsers let nobody prevent a second Escape.
        if (stays) dialog.current?.showModal();
        else onClose();
      }}
      onFocus={(e) => {
        focused.current = e.target;
      }}
    >
      <form
        onSubmit={(e: FormEvent) => {
          e.preventDefault();
          e.stopPropagation();
          onSubmit();
        }}
      >
        <h2 id={heading} ref={head}>
          {title}
        </h2>
        {children}
        {/* Under a second click, and under a key held down, there may be the next question by now: it is read first. */}
        <div
          className="actions"
          onClickCapture={(e) => {
            if (firstPress(e)) return;
            e.preventDefault();
            e.stopPropagation();
          }}
          onKeyDownCapture={(e) => {
            if (e.repeat && e.key !== "Tab") e.preventDefault();
          }}
        >
          <button type="button" disabled={busy && secret} onClick={onClose}>
            {dismiss}
          </button>
          {actions}
        </div>
      </form>
    </dialog>
  );
}

const nothingFocused = (): boolean => document.activeElement === null || document.activeElement === document.body;
