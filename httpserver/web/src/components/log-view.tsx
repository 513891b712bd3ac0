import { useCallback, useContext, useEffect, useLayoutEffect, useRef, useState } from "react";

import { ApiError } from "../api/client";
import { follow as followLog } from "../api/link";
import { type LogPlace, type LogState, findLine, logUrl, readLog } from "../api/log";
import { size } from "../domain/format";
import { type LogLine, LogText } from "../domain/logtext";
import { JobGone } from "./job-notes";
import { LogLines } from "./log-lines";
import { showsTimes, useLineTimes } from "./log-times";

const stateText: Record<LogState, string> = {
  live: "live",
  ended: "complete",
  reconnecting: "connection lost, trying again …",
  none: "nothing yet",
  refused: "not shown",
};

/** What a scroll to an end of the window loads. */
const PIECE_BYTES = 256 * 1024;
/** What stands before a line that was asked for. */
const BEFORE_BYTES = 16 * 1024;
/** So near an end of the window its neighbourhood is loaded. */
const NEAR_PX = 400;

/** The line that the address names: #L120. */
const hashLine = (): number | null => {
  const found = /^#L([1-9]\d{0,14})$/.exec(window.location.hash)?.[1];
  return found === undefined ? null : Number(found);
};

/** Where the reader is, told by a line that is on screen, so that lines above it may come and go. */
interface Anchor {
  readonly at: string;
  readonly top: number;
}

/**
 * A live log of any size: opens at its tail, or at a line of the address, and holds a window of it. What is scrolled
 * to is loaded. It follows while the reader stands at the end.
 *
 * `expected`: bytes that it had when its attempt ended.
 */
export function LogView({ place, expected = null }: { place: LogPlace; expected?: number | null }) {
  const { job, task, attempt, stream } = place;
  const jobGone = useContext(JobGone);
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [state, setState] = useState<LogState>("none");
  const [sentence, setSentence] = useState("");
  const [trouble, setTrouble] = useState("");
  const [follow, setFollow] = useState(() => hashLine() === null);
  const [marked, setMarked] = useState(hashLine);
  const [full, setFull] = useState(false);
  const [withTimes, setWithTimes] = useState(showsTimes.get);
  const [begin, setBegin] = useState(0);
  const [first, setFirst] = useState<number | null>(1);
  const [behind, setBehind] = useState(false);
  const [wanted, setWanted] = useState("");
  /** A new opening of the log: at its tail, at its start, or at a line. */
  const [opening, setOpening] = useState<{ line: number | null }>(() => ({ line: hashLine() }));
  const text = useRef<LogText | null>(null);
  const times = useLineTimes(place, withTimes && stream !== "platform", text.current?.begin ?? 0, text.current?.offset ?? 0);
  const box = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  const known = useRef(0);
  const loading = useRef(false);
  const following = useRef(follow);
  const anchor = useRef<Anchor | null>(null);
  const goTo = useRef<number | null>(null);
  following.current = follow;

  const show = useCallback((): void => {
    const now = text.current;
    if (now === null) return;
    setLines(now.lines());
    setBegin(now.begin);
    setFirst(now.first);
    setBehind(now.offset < known.current);
  }, []);

  useEffect(() => {
    const stop = new AbortController();
    const where: LogPlace = { job, task, attempt, stream };
    let scheduled = 0;
    text.current = null;
    known.current = 0;
    loading.current = false;
    setLines([]);
    setState("none");
    setSentence("");
    setTrouble("");
    setBegin(0);
    setBehind(false);

    const follower = (from: number | null): Promise<void> =>
      followLog(
        where,
        {
          bytes(data, offset) {
            if (text.current === null) {
              text.current = new LogText(offset);
              if (offset > 0) void number(text.current, offset);
            }
            const now = text.current;
            known.current = Math.max(known.current, offset + data.byteLength);
            // What is read stays where it is: a window that is full, or ends before this, takes it when it is scrolled to.
            if (now.offset === offset && (following.current || !now.full)) now.add(data, following.current ? "end" : "start");
            // At most ten pictures a second, however fast the log is; a timer also runs in a hidden tab.
            scheduled ||= window.setTimeout(() => {
              scheduled = 0;
              show();
            }, 100);
          },
          state(now, why = "") {
            setState(now);
            setSentence(why);
          },
        },
        stop.signal,
        from,
      );

    /** Which number the line has that the window begins with; the log goes on without. */
    const number = async (of: LogText, offset: number): Promise<void> => {
      try {
        const found = await findLine(where, { offset }, stop.signal);
        of.first ??= found.line;
        show();
      } catch {
        // It is shown without numbers.
      }
    };

    const atLine = async (line: number): Promise<void> => {
      const found = await findLine(where, { line }, stop.signal);
      const start = Math.max(0, found.offset - BEFORE_BYTES);
      const part = await readLog(where, start, found.size === 0 ? start : found.offset + PIECE_BYTES, stop.signal);
      if (stop.signal.aborted) return;
      const opened = new LogText(part.offset);
      opened.add(part.data, "start");
      const there = opened.lines().find((one) => one.at === found.offset);
      if (opened.first === null && there !== undefined) opened.first = found.line - there.index;
      text.current = opened;
      known.current = Math.max(found.size, part.size ?? 0);
      goTo.current = found.offset;
      if (found.line < line) setTrouble(`The log has ${found.line} lines; there is no line ${line}.`);
      show();
      await follower(known.current);
    };

    const failed = (error: unknown): void => {
      if (stop.signal.aborted) return;
      setTrouble(error instanceof ApiError ? error.message : "The server does not answer.");
      // The line can't be found: the log itself still may be.
      setFollow(true);
      void follower(null);
    };
    if (opening.line === null) void follower(null);
    else atLine(opening.line).catch(failed);
    return () => {
      stop.abort();
      clearTimeout(scheduled);
    };
  }, [job, task, attempt, stream, opening, show]);

  // The address of another line, typed or gone back to.
  useEffect(() => {
    const changed = (): void => {
      const line = hashLine();
      setMarked(line);
      if (line === null) return;
      setFollow(false);
      setOpening({ line });
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);

  useEffect(() => {
    if (!full) return;
    const leave = (event: KeyboardEvent): void => {
      if (event.key === "Escape") setFull(false);
    };
    window.addEventListener("keydown", leave);
    return () => window.removeEventListener("keydown", leave);
  }, [full]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const there = goTo.current ?? anchor.current?.at;
    const line = there === undefined ? null : element.querySelector<HTMLElement>(`[data-at="${there}"]`);
    if (goTo.current !== null) {
      if (line !== null) {
        element.scrollTop = line.offsetTop - element.clientHeight / 3;
        goTo.current = null;
      }
    } else if (follow) {
      element.scrollTop = element.scrollHeight;
    } else if (line !== null && anchor.current !== null) {
      element.scrollTop = line.offsetTop - anchor.current.top;
    }
    anchor.current = null;
    lastTop.current = element.scrollTop;
  }, [lines, follow, full, times]);

  /** Remembers the first line in sight, but not the one at the very top: it begins elsewhere once it is whole. */
  const hold = (): void => {
    const element = box.current;
    if (element === null) return;
    const top = element.querySelector(".line");
    for (const block of element.querySelectorAll("pre")) {
      if (block.offsetTop + block.offsetHeight < element.scrollTop) continue;
      for (const line of block.querySelectorAll<HTMLElement>(".line")) {
        if (line !== top && line.offsetTop + line.offsetHeight >= element.scrollTop) {
          anchor.current = { at: line.dataset["at"] ?? "", top: line.offsetTop - element.scrollTop };
          return;
        }
      }
    }
  };

  const load = async (side: "above" | "below"): Promise<void> => {
    const now = text.current;
    if (now === null || loading.current) return;
    if (side === "above" ? now.begin === 0 : now.offset >= known.current) return;
    loading.current = true;
    try {
      const from = side === "above" ? Math.max(0, now.begin - PIECE_BYTES) : now.offset;
      const to = side === "above" ? now.begin : now.offset + PIECE_BYTES;
      const part = await readLog({ job, task, attempt, stream }, from, to);
      if (text.current !== now) return;
      const met = side === "above" ? part.offset + part.data.byteLength === now.begin : part.offset === now.offset;
      if (part.data.byteLength === 0 || !met) {
        // Removed, or another one: what is on screen is all that is left.
        if (side === "below") known.current = now.offset;
        setTrouble("The rest of this log is not there any more.");
        return;
      }
      hold();
      if (side === "above") {
        now.addBefore(part.data);
        now.dropBottom();
      } else {
        now.add(part.data, "start");
        now.dropTop();
        known.current = Math.max(known.current, now.offset);
      }
      setTrouble("");
      show();
    } catch (error) {
      setTrouble(error instanceof ApiError ? error.message : "The server does not answer; scroll again to try again.");
    } finally {
      loading.current = false;
    }
  };

  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    // Only the reader moves it up: a log that grows must not end following by itself.
    const up = element.scrollTop < lastTop.current - 1;
    const down = element.scrollTop > lastTop.current + 1;
    lastTop.current = element.scrollTop;
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    const whole = text.current !== null && text.current.offset >= known.current;
    if (left < 40 && whole) setFollow(true);
    else if (up) setFollow(false);
    if (up && element.scrollTop < NEAR_PX) void load("above");
    else if (down && left < NEAR_PX && !whole) void load("below");
  };

  const address = (line: number | null): void => {
    const { pathname, search } = window.location;
    window.history.replaceState(window.history.state, "", `${pathname}${search}${line === null ? "" : `#L${line}`}`);
    setMarked(line);
  };
  const open = (line: number | null): void => {
    setFollow(line === null);
    if (line === null || line === 1) address(null);
    setOpening({ line });
  };
  const toEnd = (): void => {
    address(null);
    if (text.current !== null && text.current.offset >= known.current) setFollow(true);
    else open(null);
  };
  /** A click on the number of a line makes its address. */
  const onClick = (event: React.MouseEvent): void => {
    const line = (event.target as Element).closest<HTMLElement>(".line");
    const number = Number(line?.dataset["n"]);
    if (line === null || !number) return;
    if (event.clientX < line.getBoundingClientRect().left + Number.parseFloat(getComputedStyle(line).paddingLeft)) address(number);
  };

  const url = logUrl({ job, task, attempt, stream });
  const gone = state === "ended" && lines.length === 0 && (expected ?? 0) > 0;
  const last = lines.at(-1);
  return (
    <section className={full ? "log full" : "log"} aria-label={`Log of ${task}, ${stream}`}>
      <div className="log-bar">
        <span className={`log-state ${state}`} role="status">
          {jobGone ? "deleted" : sentence || stateText[state]}
        </span>
        <label>
          <input type="checkbox" checked={follow} onChange={(e) => (e.target.checked ? toEnd() : setFollow(false))} /> follow
        </label>
        {stream !== "platform" && (
          <label title="When each line came, by the clock of the node">
            <input
              type="checkbox"
              checked={withTimes}
              onChange={(e) => {
                setWithTimes(e.target.checked);
                showsTimes.keep(e.target.checked);
              }}
            />{" "}
            times
          </label>
        )}
        <form
          className="go-to"
          onSubmit={(e) => {
            e.preventDefault();
            const line = Number(wanted);
            if (!Number.isInteger(line) || line < 1) return;
            address(line);
            setFollow(false);
            setOpening({ line });
          }}
        >
          <input
            inputMode="numeric"
            pattern="[1-9][0-9]{0,14}"
            title="A line's number, from 1"
            aria-label="Go to line"
            placeholder="line"
            size={6}
            value={wanted}
            onChange={(e) => setWanted(e.target.value)}
          />
        </form>
        <button className="small" onClick={() => open(1)} disabled={begin === 0 && !behind && lines.length < 2}>
          Start
        </button>
        <button className="small" onClick={toEnd}>
          End
        </button>
        <button className="small" aria-pressed={full} onClick={() => setFull(!full)} title={full ? "Escape leaves it, too" : "The log alone, as large as the window"}>
          {full ? "Leave full screen" : "Full screen"}
        </button>
        <a href={url} download={`${task}.${attempt}.${stream}.log`}>
          Download
        </a>
      </div>
      {begin > 0 && follow && (
        <p className="note">Only the end of the log is loaded. Scroll up for what stands before, or go to its start.</p>
      )}
      {behind && !follow && <p className="note">The log goes on below: scroll down, or go to its end.</p>}
      {trouble && (
        <p className="note" role="status">
          {trouble}
        </p>
      )}
      <div
        className={state === "ended" && lines.length < 8 && !full ? "log-text short" : "log-text"}
        style={first === null ? undefined : ({ "--digits": String(first + (last?.index ?? 0)).length } as React.CSSProperties)}
        ref={box}
        onScroll={onScroll}
        onClick={onClick}
        tabIndex={0}
        role="region"
        aria-label="The log's lines"
      >
        <LogLines lines={lines} first={first} marked={marked} times={withTimes ? times : null} />
        {lines.length === 0 && (
          <p className="empty">
            {jobGone ? "The job was deleted, and its logs with it." : gone ? `This log had ${size(expected)} and is not there any more: logs are removed after a while.` : state === "ended" ? "It printed nothing." : state === "reconnecting" ? "The log can’t be read now. It is asked for again." : "Nothing printed yet."}
          </p>
        )}
      </div>
    </section>
  );
}
