import { memo, useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { type Line, type Plot, type Range, STEPS, type Unit, type Values, ticks, told } from "../domain/series";

/** So many colours there are; further lines take them again, dashed. */
export const COLOURS = 8;

export interface Palette {
  readonly lines: readonly string[];
  readonly text: string;
  readonly grid: string;
}

const HEIGHT = 150;
const WORDS_WIDTH = 74;
const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";
/** A shorter drag is a click. */
const LEAST_DRAG = 5;
/** Between two words of the time axis, in seconds; days, months and years as the library counts them. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200]
  .concat([1, 2, 3, 7].map((days) => days * 86_400))
  .concat([1, 2, 3, 6].map((months) => months * 30 * 86_400));
const THEIRS = new Set(["mousemove", "mouseleave"]);

const faded = (colour: string): string => colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)");
const colourOf = (palette: Palette, line: Line): string => palette.lines[line.colour % COLOURS] ?? palette.text;
const extreme = (line: Line): Values | undefined => line.column.most ?? line.column.least;

/** Means, each with its extremes behind it. */
function dataOf(at: readonly number[], plot: Plot): uPlot.AlignedData {
  const rows = plot.lines.flatMap((line) => {
    const edge = extreme(line);
    return edge === undefined ? [line.column.mean] : [line.column.mean, edge];
  });
  return [at as number[], ...rows] as uPlot.AlignedData;
}

/** From nothing up, and a temperature around what it was. A share is of the whole. */
function heights(unit: Unit, least: number | null, most: number | null): uPlot.Range.MinMax {
  if (unit === "share") return [0, 1];
  if (least === null || most === null) return [0, 1];
  if (unit === "celsius") return [Math.floor(Math.min(least - 2, most - 10)), Math.ceil(most + 2)];
  return [0, most <= 0 ? 1 : most * 1.08];
}

interface Props {
  readonly plot: Plot;
  readonly at: readonly number[];
  readonly range: Range;
  /** UUIDs of GPUs that are not to be seen. */
  readonly hidden: ReadonlySet<string>;
  readonly palette: Palette;
  /** What the charts of one time axis share. */
  readonly group: string;
  readonly label: string;
  readonly onZoom: (range: Range | null) => void;
  /** The moment below the pointer; null: it is not there. */
  readonly onMoment: (at: number | null) => void;
}

/** The lines of one plot. Words, values and keys are its reader's part: here is only the picture. */
export const PlotPicture = memo(function PlotPicture(props: Props) {
  const { plot, at, range, hidden, palette, label } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  // What the chart asks for while it draws: the newest.
  const given = useRef(props);
  given.current = props;
  // Which lines there are; their values come and go in one chart.
  const form = JSON.stringify(plot.lines.map((line) => [line.key, line.colour, extreme(line) !== undefined]));

  useEffect(() => {
    const target = box.current;
    if (target === null) return;
    const lines = given.current.plot.lines;
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    for (const line of lines) {
      const stroke = (): string => colourOf(given.current.palette, line);
      series.push({ stroke, width: 1.5, points: { size: 4 }, ...(line.colour >= COLOURS ? { dash: [5, 3] } : {}) });
      if (extreme(line) === undefined) continue;
      const mean = series.length - 1;
      series.push({ stroke: "transparent", width: 0, points: { show: false } });
      const upper = line.column.most !== undefined;
      bands.push({ series: upper ? [mean + 1, mean] : [mean, mean + 1], fill: () => faded(stroke()) });
    }
    const text = (): string => given.current.palette.text;
    const grid = { stroke: () => given.current.palette.grid, width: 1 };
    const unit = plot.unit;
    const own = new uPlot(
      {
        width: Math.max(100, target.clientWidth),
        height: HEIGHT,
        // The last word of the time axis has room.
        padding: [10, 34, 0, 0],
        series,
        bands,
        legend: { show: false },
        scales: {
          x: { time: true, range: () => [given.current.range.from, given.current.range.to] },
          y: { range: (_, least, most) => heights(unit, least, most) },
        },
        axes: [
          { stroke: text, font: FONT, grid, ticks: grid, size: 26, space: 64, incrs: TIMES, values: (_, splits, __, ___, step) => ticks(splits, step) },
          {
            stroke: text,
            font: FONT,
            grid,
            ticks: grid,
            size: WORDS_WIDTH,
            space: 26,
            values: (_, splits) => splits.map((value) => told(unit, value)),
            incrs: STEPS[unit],
          },
        ],
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG },
          sync: { key: given.current.group, filters: { pub: (type) => THEIRS.has(type) } },
          bind: {
            dblclick: () => () => {
              given.current.onZoom(null);
              return null;
            },
          },
        },
        hooks: {
          setSelect: [
            (u) => {
              const { left, width } = u.select;
              if (width >= LEAST_DRAG) given.current.onZoom({ from: u.posToVal(left, "x"), to: u.posToVal(left + width, "x") });
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
          setCursor: [(u) => given.current.onMoment(u.cursor.idx == null ? null : (u.data[0]?.[u.cursor.idx] ?? null))],
        },
      },
      dataOf(given.current.at, given.current.plot),
      target,
    );
    chart.current = own;
    const watch = new ResizeObserver(() => own.setSize({ width: Math.max(100, target.clientWidth), height: HEIGHT }));
    watch.observe(target);
    return () => {
      watch.disconnect();
      chart.current = null;
      own.destroy();
    };
  }, [form, plot.unit]);

  useEffect(() => chart.current?.setData(dataOf(at, plot)), [at, plot, range]);
  useEffect(() => {
    let index = 0;
    for (const line of plot.lines) {
      const show = line.uuid === null || !hidden.has(line.uuid);
      const count = extreme(line) === undefined ? 1 : 2;
      for (let i = 0; i < count; i++) {
        index += 1;
        if (chart.current?.series[index]?.show !== show) chart.current?.setSeries(index, { show });
      }
    }
  }, [form, plot, hidden]);
  useEffect(() => chart.current?.redraw(false, true), [palette]);

  return <div className="plot-picture" ref={box} role="img" aria-label={label} />;
});

/** The line through all charts at a moment; null: none. */
export function pointAt(group: string, at: number | null): void {
  for (const chart of uPlot.sync(group).plots) {
    const left = at === null ? -10 : chart.valToPos(at, "x");
    chart.setCursor({ left, top: at === null ? -10 : 10 }, false);
  }
}
