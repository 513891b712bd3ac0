import { memo, useEffect, useRef, useState } from "react";

import { type LogPlace, type LogState, TAIL_BYTES, followLog, logUrl } from "../api/log";
import { LogText } from "../domain/logtext";
import { size } from "../domain/format";

const stateText: Record<LogState, string> = {
  live: "live",
  ended: "complete",
  reconnecting: "connection lost, trying again …",
  none: "nothing yet",
  refused: "not shown",
};

const BLOCK_LINES = 200;

/** Lines in blocks that keep their place in the whole, so that a new line draws one block anew and not all. */
function blocks(lines: readonly string[], dropped: number): { key: number; text: string }[] {
  const out: { key: number; text: string }[] = [];
  for (let at = 0; at < lines.length;) {
    const end = Math.min(lines.length, at + BLOCK_LINES - ((dropped + at) % BLOCK_LINES));
    out.push({ key: Math.floor((dropped + at) / BLOCK_LINES), text: lines.slice(at, end).join("\n") });
    at = end;
  }
  return out;
}

// A block that ends with an empty line would lose it: the last line feed of a <pre> takes no room.
const Block = memo(function Block({ text }: { text: string }) {
  return <pre>{text.endsWith("\n") || text === "" ? `${text}\n` : text}</pre>;
});

/** A live log: opens at its tail, follows while the reader stands at the end, keeps memory bounded. */
export function LogView({ place }: { place: LogPlace }) {
  const { job, task, attempt, stream } = place;
  const [lines, setLines] = useState<string[]>([]);
  const [state, setState] = useState<LogState>("none");
  const [sentence, setSentence] = useState("");
  const [skipped, setSkipped] = useState({ bytes: 0, lines: 0 });
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);

  useEffect(() => {
    const stop = new AbortController();
    let text: LogText | null = null;
    let begin = 0;
    let scheduled = 0;
    const show = (): void => {
      scheduled = 0;
      if (text === null) return;
      setLines(text.view());
      setSkipped({ bytes: begin, lines: text.dropped });
    };
    setLines([]);
    setState("none");
    setSentence("");
    setSkipped({ bytes: 0, lines: 0 });
    void followLog(
      { job, task, attempt, stream },
      {
        bytes(data, offset) {
          if (text === null) {
            begin = offset;
            text = new LogText(offset);
          }
          text.add(data);
          // At most ten pictures a second, however fast the log is; a timer also runs in a hidden tab.
          scheduled ||= window.setTimeout(show, 100);
        },
        state(now, why = "") {
          setState(now);
          setSentence(why);
        },
      },
      stop.signal,
    );
    return () => {
      stop.abort();
      clearTimeout(scheduled);
    };
  }, [job, task, attempt, stream]);

  useEffect(() => {
    const element = box.current;
    if (follow && element !== null) element.scrollTop = element.scrollHeight;
  }, [lines, follow]);

  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    // Only the reader moves it up: a log that grows must not end following by itself.
    const up = element.scrollTop < lastTop.current - 1;
    lastTop.current = element.scrollTop;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 40) setFollow(true);
    else if (up) setFollow(false);
  };

  const url = logUrl({ job, task, attempt, stream });
  return (
    <section className="log" aria-label={`Log of ${task}, ${stream}`}>
      <div className="log-bar">
        <span className={`log-state ${state}`} role="status">
          {sentence || stateText[state]}
        </span>
        <label>
          <input type="checkbox" checked={follow} onChange={(e) => setFollow(e.target.checked)} /> follow
        </label>
        <a href={url} download={`${task}.${attempt}.${stream}.log`}>
          Download
        </a>
      </div>
      {(skipped.bytes > 0 || skipped.lines > 0) && (
        <p className="note">
          Only the end of the log is shown
          {skipped.bytes > 0 && <> (from its last {size(TAIL_BYTES)} on)</>}. The download has the whole log.
        </p>
      )}
      <div className={state === "ended" && lines.length < 8 ? "log-text short" : "log-text"} ref={box} onScroll={onScroll} tabIndex={0}>
        {blocks(lines, skipped.lines).map(({ key, text }) => (
          <Block key={key} text={text} />
        ))}
        {lines.length === 0 && <p className="empty">{state === "ended" ? "It printed nothing." : "Nothing printed yet."}</p>}
      </div>
    </section>
  );
}
