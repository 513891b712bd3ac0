import { type Ref, memo, useImperativeHandle, useMemo, useRef } from "react";

import type { ProblemItem } from "../api/client";

export interface EditorHandle {
  goTo(line: number, column: number): void;
}

/** Puts a text at the caret as typing does, so that the browser can undo it. */
function typeIn(area: HTMLTextAreaElement, text: string): void {
  // The only way into the browser's own history of a field. It is old, and all browsers have it.
  if (typeof document.execCommand === "function" && document.execCommand("insertText", false, text)) return;
  area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

/** A text with line numbers; lines with problems are marked. Plain on purpose: no injected styles, any size. */
export function Editor({
  text,
  onChange,
  problems,
  label,
  locked = false,
  ref,
}: {
  /** Its line ends stay what they are. */
  text: string;
  onChange: (text: string) => void;
  problems: readonly ProblemItem[];
  label: string;
  /** Nothing can be typed for now. */
  locked?: boolean;
  ref?: Ref<EditorHandle>;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  // A text field knows one line end only. Another value than its own would be set anew at each render, and move the caret.
  const returns = text.includes("\r\n");
  const value = useMemo(() => text.replace(/\r\n?/g, "\n"), [text]);
  const lines = value.split("\n").length;

  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const element = area.current;
      if (element === null) return;
      const before = value.split("\n").slice(0, line - 1);
      const at = before.reduce((sum, l) => sum + l.length + 1, 0) + column - 1;
      element.focus();
      element.setSelectionRange(at, at);
      element.scrollTop = Math.max(0, (line - 4) * 20);
    },
  }));

  return (
    <div className="editor">
      <div className="gutter" ref={gutter} aria-hidden="true">
        <Numbers lines={lines} problems={problems} />
      </div>
      <textarea
        ref={area}
        value={value}
        readOnly={locked}
        aria-label={label}
        aria-invalid={problems.length > 0}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        wrap="off"
        onChange={(e) => onChange(returns ? e.target.value.replaceAll("\n", "\r\n") : e.target.value)}
        onScroll={(e) => {
          if (gutter.current !== null) gutter.current.scrollTop = e.currentTarget.scrollTop;
        }}
        onKeyDown={(e) => {
          // Two spaces instead of leaving the field; Escape then Tab leaves it.
          if (e.key === "Tab" && !e.shiftKey && !e.ctrlKey && !e.altKey && !e.metaKey && !locked) {
            e.preventDefault();
            typeIn(e.currentTarget, "  ");
          }
          if (e.key === "Escape") e.currentTarget.blur();
        }}
      />
    </div>
  );
}

/** Drawn anew only when there are more lines or other problems: a key in a long file must not wait for it. */
const Numbers = memo(function Numbers({ lines, problems }: { lines: number; problems: readonly ProblemItem[] }) {
  if (lines > 20_000) return null;
  const marked = new Map<number, string>();
  for (const p of problems) {
    if (p.line !== null) marked.set(p.line, [marked.get(p.line), p.message].filter(Boolean).join("\n"));
  }
  return (
    <div>
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} className={marked.has(i + 1) ? "line marked" : "line"} title={marked.get(i + 1)}>
          {i + 1}
        </div>
      ))}
    </div>
  );
});
