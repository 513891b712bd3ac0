import { type ReactNode, useEffect, useState } from "react";

import type { ProblemItem } from "../api/client";
import { type Tone, label } from "../domain/states";

export function State({ state, tone }: { state: string; tone: Tone }) {
  return <span className={`state ${tone}`}>{label(state)}</span>;
}

/** Seconds since the epoch, renewed while something on screen counts. */
export function useNow(everyMs = 1000, on = true): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!on) return;
    const timer = setInterval(() => setNow(Date.now() / 1000), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, on]);
  return now;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Headway`;
    return () => {
      document.title = "Headway";
    };
  }, [title]);
}

/** A sentence of the server: what it put between backticks is shown as code. */
export function Sentence({ text }: { text: string }) {
  return <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>;
}

export function Failure({ error, again }: { error: Error; again?: () => void }) {
  return (
    <div className="failure" role="alert">
      <Sentence text={error.message} /> {again && <button onClick={again}>Try again</button>}
    </div>
  );
}

/** The server's problems as a list; `onPick` brings the reader to the place of one. */
export function Problems({ problems, onPick }: { problems: readonly ProblemItem[]; onPick?: (p: ProblemItem) => void }) {
  if (problems.length === 0) return null;
  return (
    <ul className="problems">
      {problems.map((p, i) => (
        <li key={i}>
          {p.line !== null && onPick && (
            <button className="link" onClick={() => onPick(p)}>
              line {p.line}, column {p.column}
            </button>
          )}{" "}
          <Sentence text={p.message} />
          {p.suggestion && !p.message.includes(p.suggestion) && <> Did you mean “{p.suggestion}”?</>}
        </li>
      ))}
    </ul>
  );
}

/** What is wrong with one field, below it. */
export function FieldProblems({ problems }: { problems: readonly ProblemItem[] }) {
  return problems.map((p, i) => (
    <small className="wrong-text" key={i}>
      <Sentence text={p.message} />
    </small>
  ));
}

/** `scarce`: nearly full is a trouble, not a success. */
export function Meter({ used, of, text, scarce = false }: { used: number | null; of: number; text: string; scarce?: boolean }) {
  const share = used === null || of <= 0 ? 0 : Math.min(1, used / of);
  return (
    <div className="meter" role="img" aria-label={text} title={text}>
      <div className={scarce && share > 0.9 ? "fill full" : "fill"} style={{ width: `${share * 100}%` }} />
      <span>{text}</span>
    </div>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}
