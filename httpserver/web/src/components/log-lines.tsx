/** The lines of a log that are on the page. */
import { memo } from "react";

import type { LogLine } from "../domain/logtext";
import { type LineTimes, exact } from "../domain/logtimes";
import { type Run, type Style, colours } from "../domain/terminal";

const BLOCK_LINES = 200;

/** Lines in blocks that keep their place in the whole, so that a new line draws one block anew and not all. */
function blocks(lines: readonly LogLine[]): LogLine[][] {
  const out: LogLine[][] = [];
  let key = NaN;
  for (const line of lines) {
    const own = Math.floor(line.index / BLOCK_LINES);
    if (own !== key) out.push([]);
    key = own;
    out.at(-1)?.push(line);
  }
  return out;
}

const drawnStyle = (style: Style): React.CSSProperties => ({
  ...(style.fg || style.bg || style.inverse ? colours(style) : {}),
  ...(style.bold ? { fontWeight: 700 } : {}),
  ...(style.italic ? { fontStyle: "italic" } : {}),
  ...(style.underline ? { textDecoration: "underline" } : {}),
});

const Runs = ({ runs }: { runs: readonly Run[] }): React.ReactNode =>
  runs.map((run, i) => (
    <span key={i} style={drawnStyle(run.style)}>
      {run.text}
    </span>
  ));

/** A line whose time nobody knows has an empty place for it. */
const At = ({ at }: { at: number | null }): React.ReactNode =>
  at === null ? <span className="at" /> : <time className="at" dateTime={new Date(at * 1000).toISOString()}>{`${exact(at)} `}</time>;

interface BlockProps {
  readonly lines: readonly LogLine[];
  readonly first: number | null;
  readonly marked: number | null;
  readonly times: readonly (number | null)[] | null;
}

const same = <T,>(a: readonly T[], b: readonly T[]): boolean => a.length === b.length && a.every((one, i) => one === b[i]);

const Block = memo(
  function Block({ lines, first, marked, times }: BlockProps) {
    return (
      <pre>
        {lines.map((line, i) => {
          const number = first === null ? undefined : first + line.index;
          return (
            <span key={line.at} className={number !== undefined && number === marked ? "line marked" : "line"} data-at={line.at} data-n={number}>
              {times && <At at={times[i] ?? null} />}
              {line.runs ? <Runs runs={line.runs} /> : line.text}
              {"\n"}
            </span>
          );
        })}
      </pre>
    );
  },
  (a, b) =>
    a.first === b.first &&
    a.marked === b.marked &&
    same(a.lines, b.lines) &&
    (a.times === b.times || (a.times !== null && b.times !== null && same(a.times, b.times))),
);

/** `first`: the number of the line with the index 0; `times`: null: not shown. */
export function LogLines({
  lines,
  first,
  marked,
  times,
}: {
  lines: readonly LogLine[];
  first: number | null;
  marked: number | null;
  times: LineTimes | null;
}) {
  return blocks(lines).map((some) => (
    <Block
      key={Math.floor((some[0]?.index ?? 0) / BLOCK_LINES)}
      lines={some}
      first={first}
      marked={marked !== null && first !== null && some.some((line) => first + line.index === marked) ? marked : null}
      times={times && some.map((line) => times.of(line.at))}
    />
  ));
}
