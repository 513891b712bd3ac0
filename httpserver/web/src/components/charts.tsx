import { type ReactNode, useCallback, useEffect, useId, useMemo, useRef, useState } from "react";

import {
  type Measured,
  type Plot,
  type Range,
  closer,
  gpuName,
  isMeasured,
  momentIn,
  nearest,
  plotsOf,
  sentence,
  summary,
  told,
  wider,
  withGaps,
} from "../domain/series";
import { zone } from "../domain/zone";
import { COLOURS, type Palette, PlotPicture, pointAt } from "./plot";

/** So few points are seen at least, however far it is zoomed. */
const LEAST_POINTS = 5;

function readPalette(): Palette {
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const palette = {
    lines: Array.from({ length: COLOURS }, (_, i) => read(`--plot-${i}`)),
    text: read("--soft"),
    grid: read("--line"),
  };
  probe.remove();
  return palette;
}

/** The page's colours as a canvas takes them: it does not follow the reader's light and dark by itself. */
function usePalette(): Palette {
  const [palette, setPalette] = useState(readPalette);
  useEffect(() => {
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    const change = (): void => setPalette(readPalette());
    scheme.addEventListener("change", change);
    return () => scheme.removeEventListener("change", change);
  }, []);
  return palette;
}

export interface ChartsProps {
  readonly measured: Measured;
  /** All that can be seen; `zoom`: the part of it that is. */
  readonly whole: Range;
  readonly zoom: Range | null;
  readonly onZoom: (zoom: Range | null) => void;
  /** Where all of it can be had. */
  readonly children?: ReactNode;
}

/** Everything that was measured, over one time axis with one cursor. */
export function Charts({ measured, whole, zoom, onZoom, children }: ChartsProps) {
  const group = useId();
  const palette = usePalette();
  const [moment, setMoment] = useState<number | null>(null);
  /** Whether a pointer is over the charts, and says the moment. */
  const pointing = useRef(false);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const all = useMemo(() => withGaps(measured), [measured]);
  const plots = useMemo(() => plotsOf(all), [all]);
  const drawn = plots.filter((plot) => plot.lines.some(isMeasured));
  const ofGpus = drawn.some((plot) => plot.lines.some((line) => line.uuid !== null));
  const absent = plots.filter((plot) => !drawn.includes(plot)).map((plot) => plot.title);
  const { from, to } = zoom ?? whole;
  const range = useMemo(() => ({ from, to }), [from, to]);
  const labels = useMemo(() => new Map(plots.map((plot) => [plot.key, sentence(all, plot, range)])), [all, plots, range]);
  const step = Math.max(...measured.steps.slice(-1), 1);
  const least = LEAST_POINTS * step;

  const zoomTo = useCallback(
    (wanted: Range | null): void => {
      if (wanted === null) {
        onZoom(null);
        return;
      }
      const middle = (wanted.from + wanted.to) / 2;
      const half = Math.max(wanted.to - wanted.from, least) / 2;
      onZoom({ from: Math.max(whole.from, middle - half), to: Math.min(whole.to, middle + half) });
    },
    [onZoom, least, whole.from, whole.to],
  );

  // By keys and for who does not see the charts: the same cursor.
  const first = all.at.findIndex((at) => at >= from);
  const last = all.at.findLastIndex((at) => at <= to);
  const index = moment === null ? last : Math.min(Math.max(nearest(all.at, moment), first), last);
  const at = all.at[index];
  const pick = (to: number): void => {
    pointing.current = false;
    setMoment(all.at[to] ?? null);
  };
  // What keys have picked stays below the cursor while points come; a pointer stays where it is, whatever is below.
  useEffect(() => {
    // After the charts have drawn what is new.
    if (!pointing.current) queueMicrotask(() => pointAt(group, moment));
  }, [group, moment, all, range]);
  const point = useCallback((below: number | null): void => {
    if (pointing.current) setMoment(below);
  }, []);
  const middle = moment ?? (from + to) / 2;
  const thinned = drawn.some((plot) => plot.lines.some((line) => line.column.most !== undefined || line.column.least !== undefined));

  return (
    <div className="charts">
      <div className="charts-bar">
        <label>
          Moment{" "}
          <input
            type="range"
            min={Math.max(0, first)}
            max={Math.max(0, first, last)}
            value={Math.max(0, index)}
            disabled={first < 0 || last <= first}
            aria-valuetext={at === undefined ? "none" : `${momentIn(at, range)}: ${spoken(drawn, index)}`}
            onChange={(e) => pick(Number(e.target.value))}
          />
        </label>
        <span className="number charts-moment">{at === undefined ? "–" : momentIn(at, range)}</span>
        <span className="actions">
          <button className="small" disabled={to - from <= least} onClick={() => zoomTo(closer(range, middle, least))}>
            Zoom in
          </button>
          <button className="small" disabled={zoom === null} onClick={() => zoomTo(zoom === null ? null : wider(range, whole))}>
            Zoom out
          </button>
          <button className="small" disabled={zoom === null} onClick={() => zoomTo(null)}>
            Whole time
          </button>
        </span>
      </div>
      {measured.gpus.length > 1 && ofGpus && (
        <div className="charts-gpus" role="group" aria-label="GPUs in the charts">
          {measured.gpus.map((gpu) => (
            <button
              key={gpu.uuid}
              className="small"
              title={`${gpu.uuid}: show or hide its lines`}
              aria-pressed={!hidden.has(gpu.uuid)}
              onClick={() =>
                setHidden((old) => {
                  const next = new Set(old);
                  if (!next.delete(gpu.uuid)) next.add(gpu.uuid);
                  return next;
                })
              }
            >
              <Swatch colour={gpu.index} /> GPU {gpu.index}: {gpuName(gpu)}
            </button>
          ))}
        </div>
      )}
      {measured.gpus.length === 1 &&
        ofGpus &&
        measured.gpus.map((gpu) => (
          <p className="facts" key={gpu.uuid} title={gpu.uuid}>
            GPU: {gpuName(gpu)}
          </p>
        ))}
      <div
        className="plots"
        onMouseMoveCapture={() => {
          pointing.current = true;
        }}
        onMouseLeave={() => {
          pointing.current = false;
          setMoment(null);
        }}
      >
        {drawn.map((plot) => (
          <figure className="plot" key={plot.key}>
            <figcaption>
              <strong>{plot.title}</strong>
              <Values plot={plot} index={index} hidden={hidden} />
            </figcaption>
            <PlotPicture
              plot={plot}
              at={all.at}
              range={range}
              hidden={hidden}
              palette={palette}
              group={group}
              label={labels.get(plot.key) ?? plot.title}
              onZoom={zoomTo}
              onMoment={point}
            />
          </figure>
        ))}
      </div>
      {absent.length > 0 && <p className="note">Not measured: {absent.join(", ")}. {zoom === null ? "Not every machine and driver tells everything." : "Nothing of it was told in this time."}</p>}
      <p className="facts">
        Drag over a chart to zoom in; a double click shows the whole time. Times are by your clock ({zone(new Date(to * 1000))}).
        {thinned && " Where a point stands for a span of time, the line is its mean and the shade reaches to its extreme."} A line is broken where nothing was measured.{children}
      </p>
      <Numbers all={all} plots={drawn} range={range} />
    </div>
  );
}

const spoken = (plots: readonly Plot[], index: number): string =>
  plots.map((plot) => `${plot.title} ${plot.lines.map((line) => `${line.name} ${told(plot.unit, line.column.mean[index])}`.trim()).join(", ")}`).join("; ");

function Swatch({ colour }: { colour: number }) {
  return <span className={`swatch plot-${colour % COLOURS}`} aria-hidden="true" />;
}

/** What each line says at the cursor, else at its end. */
function Values({ plot, index, hidden }: { plot: Plot; index: number; hidden: ReadonlySet<string> }) {
  return (
    <span className="plot-values number" aria-hidden="true">
      {plot.lines
        .filter((line) => line.uuid === null || !hidden.has(line.uuid))
        .map((line) => {
          const mean = line.column.mean[index] ?? null;
          const most = line.column.most?.[index] ?? null;
          const least = line.column.least?.[index] ?? null;
          return (
            <span key={line.key}>
              <Swatch colour={line.colour} /> {line.name && `${line.name}: `}
              {told(plot.unit, mean)}
              {most !== null && told(plot.unit, most) !== told(plot.unit, mean) && <small> ≤ {told(plot.unit, most)}</small>}
              {most === null && least !== null && told(plot.unit, least) !== told(plot.unit, mean) && <small> ≥ {told(plot.unit, least)}</small>}
            </span>
          );
        })}
    </span>
  );
}

/** The same in numbers: for who does not see the charts, and for a report. */
function Numbers({ all, plots, range }: { all: Measured; plots: readonly Plot[]; range: Range }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="charts-numbers" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>In numbers</summary>
      {open && (
        <div className="scroll">
          <table className="wide" aria-label="What was measured, in numbers">
            <thead>
              <tr>
                <th>Measured</th>
                <th>Last</th>
                <th>Mean</th>
                <th>Least</th>
                <th>Most</th>
              </tr>
            </thead>
            <tbody>
              {plots.flatMap((plot) =>
                plot.lines.map((line) => {
                  const found = summary(all, line.column, range);
                  return (
                    <tr key={line.key}>
                      <td className="name">
                        {plot.title} {line.name}
                      </td>
                      {found === null && <td colSpan={4}>not measured</td>}
                      {found !== null &&
                        (["last", "mean", "least", "most"] as const).map((which) => (
                          <td className="number" data-label={which} key={which}>
                            {told(plot.unit, found[which])}
                          </td>
                        ))}
                    </tr>
                  );
                }),
              )}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
