import { useEffect } from "react";

import { Store, useStore } from "../api/store";
import { freshId } from "../domain/id";
import { firstPress } from "../domain/press";

interface Toast {
  readonly key: string;
  readonly text: string;
  readonly bad: boolean;
  readonly action: { readonly label: string; readonly run: () => void } | null;
}

const toasts = new Store<readonly Toast[]>([]);
const STAYS_MS = 12_000;

function close(key: string): void {
  toasts.set(toasts.value.filter((t) => t.key !== key));
  toasts.draw();
}

/** Says something for a while, at the foot of whatever page is open. */
export function tell(text: string, { bad = false, action = null }: { bad?: boolean; action?: Toast["action"] } = {}): void {
  const key = freshId();
  toasts.set([...toasts.value.slice(-4), { key, text, bad, action }]);
}

function One({ toast }: { toast: Toast }) {
  useEffect(() => {
    const timer = setTimeout(() => close(toast.key), STAYS_MS);
    return () => clearTimeout(timer);
  }, [toast.key]);
  return (
    <div className={toast.bad ? "toast bad" : "toast"}>
      <span>{toast.text}</span>
      {toast.action && (
        <button
          className="small"
          onClick={(e) => {
            // Under a second click there is another notice's by now.
            if (!firstPress(e)) return;
            close(toast.key);
            toast.action?.run();
          }}
        >
          {toast.action.label}
        </button>
      )}
      <button className="quiet small" aria-label="Close" onClick={() => close(toast.key)}>
        ×
      </button>
    </div>
  );
}

export function Toasts() {
  const shown = useStore(toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <One key={toast.key} toast={toast} />
      ))}
    </div>
  );
}
