import { type Ref, memo, useImperativeHandle, useRef } from "react";

import type { ProblemItem } from "../api/client";

export interface EditorHandle {
  goTo(line: number, column: number): void;
}

/** A text with line numbers; lines with problems are marked. Plain on purpose: no injected styles, any size. */
export function Editor({
  text,
  onChange,
  problems,
  label,
  ref,
}: {
  text: string;
  onChange: (text: string) => void;
  problems: readonly ProblemItem[];
  label: string;
  ref?: Ref<EditorHandle>;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;

  useImperativeHandle(ref, () => ({
    goTo(line, column) {
      const element = area.current;
      if (element === null) return;
      const before = text.split("\n").slice(0, line - 1);
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
        value={text}
        aria-label={label}
        aria-invalid={problems.length > 0}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        wrap="off"
        onChange={(e) => onChange(e.target.value)}
        onScroll={(e) => {
          if (gutter.current !== null) gutter.current.scrollTop = e.currentTarget.scrollTop;
        }}
        onKeyDown={(e) => {
          // Two spaces instead of leaving the field; Escape then Tab leaves it.
          if (e.key === "Tab" && !e.shiftKey) {
            e.preventDefault();
            const { selectionStart, selectionEnd } = e.currentTarget;
            onChange(`${text.slice(0, selectionStart)}  ${text.slice(selectionEnd)}`);
            const element = e.currentTarget;
            requestAnimationFrame(() => element.setSelectionRange(selectionStart + 2, selectionStart + 2));
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
