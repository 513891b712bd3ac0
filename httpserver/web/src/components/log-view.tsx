import { useEffect, useRef, useState } from "react";

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

/** A live log: opens at its tail, follows while the reader stands at the end, keeps memory bounded. */
export function LogView({ place }: { place: LogPlace }) {
  const { job, task, attempt, stream } = place;
  const [lines, setLines] = useState<string[]>([]);
  const [state, setState] = useState<LogState>("none");
  const [sentence, setSentence] = useState("");
  const [skipped, setSkipped] = useState({ bytes: 0, lines: 0 });
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLDivElement>(null);

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
    setFollow(element.scrollHeight - element.scrollTop - element.clientHeight < 40);
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
          Only the end is shown
          {skipped.bytes > 0 && <> (it was opened at its last {size(TAIL_BYTES)})</>}; the download has all of it.
        </p>
      )}
      <div className="log-text" ref={box} onScroll={onScroll} tabIndex={0}>
        <pre>{lines.join("\n")}</pre>
        {lines.length === 0 && <p className="empty">{state === "ended" ? "It printed nothing." : "Nothing printed yet."}</p>}
      </div>
    </section>
  );
}
