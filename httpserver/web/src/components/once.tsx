import { useRef, useState } from "react";

/** A secret that is shown this once. It is kept nowhere: not in the address, not in the browser's storage. */
export function Once({ what, secret, children }: { what: string; secret: string; children?: React.ReactNode }) {
  const [copied, setCopied] = useState<"" | "copied" | "marked">("");
  const shown = useRef<HTMLElement>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(secret);
      setCopied("copied");
    } catch {
      // Browsers give programs no clipboard over plain http, or ask first: then it is marked for the keys.
      if (shown.current !== null) getSelection()?.selectAllChildren(shown.current);
      setCopied("marked");
    }
  };
  return (
    <div className="once fine">
      <p>
        {what} <strong>It is shown only now.</strong>
      </p>
      <p className="secret">
        <code ref={shown} aria-label="The secret" translate="no">
          {secret}
        </code>
        <button type="button" className="small" onClick={() => void copy()}>
          Copy
        </button>
        <span className="note" role="status">
          {copied === "copied" && "Copied."}
          {copied === "marked" && "Marked: press Ctrl+C to copy it."}
        </span>
      </p>
      {children}
    </div>
  );
}
