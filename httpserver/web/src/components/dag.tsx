import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import type { JobDetail, TaskState } from "../api/client";
import {
  type DrawnNode,
  FOLD_MODES,
  type FoldMode,
  LEAST_ZOOM,
  MOST_ZOOM,
  countStates,
  defaultFold,
  fold,
  groupLabel,
  keepChoice,
  loadChoice,
} from "../domain/fold";
import { type Box, type GraphEdge, type GraphNode, type Layout, type PlacedNode, direct, layout, shorten } from "../domain/graph";
import { type Tone, taskTone } from "../domain/states";
import { GroupBox, TONES, TaskBox, toneOf } from "./dag-boxes";

interface Props {
  readonly job: string;
  readonly tasks: JobDetail["tasks"];
  readonly edges: JobDetail["edges"];
  readonly chosen: string | undefined;
  readonly onChoose: (name: string) => void;
}

const modeText: Record<FoldMode, string> = { none: "every task", name: "by name", state: "by state" };
/** Up to so many nodes all of them are on the page; of more, those in sight. */
const ALL_DRAWN = 300;
/** More in sight are drawn at once, in one shape for each colour, without names. */
const MOST_NAMED = 700;
/** More arrows hide the boxes: those of the chosen node are drawn. */
const MOST_EDGES = 3_000;
/** The least at which names can be read; fit goes below. */
const READABLE = 0.6;
const STEP = 1.25;

const sizeOf = (node: DrawnNode): GraphNode => {
  const text = 8.5 * shorten(node.label).length;
  return node.members === null
    ? { name: node.id, width: Math.max(84, text + 44), height: 36 }
    : { name: node.id, width: Math.max(230, text + 90), height: 54 };
};

const overlaps = (a: Box, b: Box): boolean => a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;
const around = (n: PlacedNode): Box => ({ left: n.x - n.width / 2, right: n.x + n.width / 2, top: n.y - n.height / 2, bottom: n.y + n.height / 2 });

/** The next node in a direction: near, and rather straight ahead than aside. */
function nextTo(from: PlacedNode, nodes: readonly PlacedNode[], key: string): PlacedNode | undefined {
  const along = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  let best: PlacedNode | undefined;
  let least = Infinity;
  for (const node of nodes) {
    const ahead = sign * (along ? node.x - from.x : node.y - from.y);
    const aside = Math.abs(along ? node.y - from.y : node.x - from.x);
    if (ahead < 1) continue;
    const cost = ahead + 3 * aside;
    if (cost < least) [best, least] = [node, cost];
  }
  return best;
}

/** The job's DAG, coloured by live states; the layout is made once, colours follow the states. */
export const Dag = memo(function Dag({ job, tasks, edges, chosen, onChoose }: Props) {
  const [choice, setChoice] = useState(() => loadChoice(job));
  const mode = choice.fold ?? defaultFold(tasks.length);
  const change = (next: Partial<typeof choice>): void => {
    const whole = { ...choice, ...next };
    setChoice(whole);
    keepChoice(job, whole);
  };

  // States alone change nothing of the layout, unless nodes are folded by them.
  const names = useMemo(() => tasks.map((t) => (mode === "state" ? `${t.name} ${t.state}` : t.name)).join("\n"), [tasks, mode]);
  const folded = useMemo(() => fold(tasks, edges, mode, new Set(choice.opened)), [names, edges, mode, choice.opened]);
  const placed = useMemo(() => layout(folded.nodes.map(sizeOf), folded.edges), [folded]);
  const states = useMemo(() => new Map<string, TaskState>(tasks.map((t) => [t.name, t.state])), [tasks]);
  const drawn = useMemo(() => new Map(folded.nodes.map((node) => [node.id, node])), [folded]);
  const placeOf = useMemo(() => new Map(placed.nodes.map((node) => [node.name, node])), [placed]);
  const chosenId = chosen === undefined ? undefined : folded.nodeOf.get(chosen);

  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState({ width: 0, height: 0 });
  const [seen, setSeen] = useState<Box | null>(null);
  const [focused, setFocused] = useState<string | null>(null);
  /** The point of the picture that stays where it is on screen while it is zoomed. */
  const hold = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
  const toFocus = useRef<string | null>(null);
  const drag = useRef<{ x: number; y: number; left: number; top: number; moved: boolean } | null>(null);

  const whole = room.width === 0 ? 1 : Math.min(1, room.width / placed.width, room.height / placed.height);
  const zoom = choice.zoom ?? Math.max(READABLE, whole);
  const large = placed.nodes.length > ALL_DRAWN;

  const measure = useCallback((): void => {
    const element = box.current;
    if (element === null) return;
    const most = Number.parseFloat(getComputedStyle(element).maxHeight);
    const height = Math.max(40, (Number.isFinite(most) ? most : window.innerHeight * 0.6) - 16);
    const width = Math.max(0, element.clientWidth - 14);
    setRoom((old) => (old.width === width && Math.abs(old.height - height) < 1 ? old : { width, height }));
  }, []);
  useLayoutEffect(measure, [measure, chosen !== undefined]);
  useEffect(() => {
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, [measure]);

  /** What is in sight, and a screen around it: a scroll of some pixels draws nothing anew. */
  const look = useCallback((): void => {
    const element = box.current;
    if (element === null || !large) return setSeen(null);
    const step = 256 / zoom;
    const [width, height] = [element.clientWidth || 1280, element.clientHeight || 600];
    const part = (from: number, size: number): [number, number] => [(Math.floor(from / zoom / step) - 1) * step, (Math.ceil((from + size) / zoom / step) + 1) * step];
    const [left, right] = part(element.scrollLeft, width);
    const [top, bottom] = part(element.scrollTop, height);
    setSeen((old) => (old !== null && old.left === left && old.top === top && old.right === right && old.bottom === bottom ? old : { left, top, right, bottom }));
  }, [large, zoom]);
  useLayoutEffect(look, [look, placed, room]);

  useLayoutEffect(() => {
    const [element, held] = [box.current, hold.current];
    hold.current = null;
    if (element === null || held === null) return;
    element.scrollLeft = held.x * zoom - held.left;
    element.scrollTop = held.y * zoom - held.top;
  }, [zoom]);

  const zoomTo = (wanted: number | null, at?: { x: number; y: number }): void => {
    const element = box.current;
    if (element !== null) {
      const left = at?.x ?? element.clientWidth / 2;
      const top = at?.y ?? element.clientHeight / 2;
      hold.current = { x: (element.scrollLeft + left) / zoom, y: (element.scrollTop + top) / zoom, left, top };
    }
    change({ zoom: wanted === null ? null : Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, wanted)) });
  };
  const zoomBy = useRef(zoomTo);
  zoomBy.current = zoomTo;
  const zoomNow = useRef(zoom);
  zoomNow.current = zoom;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    // React listens passively, so that the browser would zoom its page, too.
    const wheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const frame = element.getBoundingClientRect();
      zoomBy.current(zoomNow.current * Math.exp(-event.deltaY / 300), { x: event.clientX - frame.left, y: event.clientY - frame.top });
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);

  /** Brings a node into sight; the page stays where it is. */
  const reveal = (id: string | undefined): void => {
    const element = box.current;
    const node = id === undefined ? undefined : placeOf.get(id);
    if (element === null || node === undefined) return;
    const [x, y] = [node.x * zoom, node.y * zoom];
    const [w, h] = [(node.width / 2) * zoom, (node.height / 2) * zoom];
    if (y - h < element.scrollTop || y + h > element.scrollTop + element.clientHeight) element.scrollTop = y - element.clientHeight / 2;
    if (x - w < element.scrollLeft || x + w > element.scrollLeft + element.clientWidth) element.scrollLeft = x - element.clientWidth / 2;
  };
  useEffect(() => reveal(chosenId), [chosenId, placed, room]);
  // The corner of a large picture may be empty: it opens at the first task. Where the reader went after that, it stays.
  const openedAt = useRef("");
  useEffect(() => {
    const opening = `${mode} ${choice.opened.join()}`;
    if (room.width === 0 || openedAt.current === opening) return;
    openedAt.current = opening;
    if (chosenId === undefined) reveal(toFocus.current ?? placed.nodes[0]?.name);
  }, [mode, choice.opened, room, placed, chosenId]);
  useEffect(() => {
    const id = toFocus.current;
    const found = id === null ? null : [...(box.current?.querySelectorAll<SVGElement>(".task") ?? [])].find((one) => one.dataset["id"] === id);
    if (!found) return;
    toFocus.current = null;
    found.focus({ preventScroll: true });
  });

  const use = (node: DrawnNode): void => {
    if (node.members === null) return onChoose(node.id);
    toFocus.current = node.members[0] ?? null;
    setFocused(node.members[0] ?? null);
    change({ opened: [...choice.opened.filter((one) => one !== node.id), node.id] });
  };
  const onKey = (event: React.KeyboardEvent, node?: DrawnNode): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (key === "+" || key === "=") zoomTo(zoom * STEP);
    else if (key === "-") zoomTo(zoom / STEP);
    else if (key === "0") zoomTo(whole);
    else if (node !== undefined && (key === "Enter" || key === " ")) use(node);
    else if (key === "Home" || key === "End" || (node !== undefined && key.startsWith("Arrow"))) {
      const from = node && placeOf.get(node.id);
      const next = key === "Home" ? placed.nodes[0] : key === "End" ? placed.nodes.at(-1) : from && nextTo(from, placed.nodes, key);
      if (next === undefined) return;
      reveal(next.name);
      toFocus.current = next.name;
      setFocused(next.name);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const inSight = seen === null ? placed.nodes : placed.nodes.filter((node) => overlaps(around(node), seen));
  const bulk = inSight.length > MOST_NAMED;
  const stop = focused !== null && drawn.has(focused) ? focused : (chosenId ?? placed.nodes[0]?.name);
  const named = bulk ? placed.nodes.filter((node) => node.name === chosenId || node.name === stop) : inSight;
  const crowded = placed.edges.length > MOST_EDGES;
  const nodeTone = (node: DrawnNode): Tone =>
    node.members === null ? taskTone[states.get(node.id) ?? "BLOCKED"] : toneOf(countStates(node.members, states));
  const opened = choice.opened.filter((id) => !drawn.has(id) && mode !== "none" && tasks.length > 0);

  /** A click where boxes have no element of their own. */
  const onClick = (event: React.MouseEvent): void => {
    const frame = box.current?.querySelector("svg")?.getBoundingClientRect();
    if (!bulk || frame === undefined) return;
    const at = point((event.clientX - frame.left) / zoom, (event.clientY - frame.top) / zoom);
    const hit = placed.nodes.find((node) => overlaps(around(node), at));
    const node = hit && drawn.get(hit.name);
    if (node) use(node);
  };

  return (
    <section className="graph" aria-label="Graph of the tasks">
      <div className="graph-bar">
        <label>
          Draw{" "}
          <select value={mode} onChange={(e) => change({ fold: e.target.value as FoldMode, opened: [] })}>
            {FOLD_MODES.map((one) => (
              <option key={one} value={one}>
                {modeText[one]}
              </option>
            ))}
          </select>
        </label>
        {opened.slice(0, 3).map((id) => (
          <button className="small" key={id} onClick={() => change({ opened: choice.opened.filter((one) => one !== id) })}>
            Fold {groupLabel(id)}
          </button>
        ))}
        {opened.length > 3 && (
          <button className="small" onClick={() => change({ opened: [] })}>
            Fold all
          </button>
        )}
        {crowded && <span className="hint">{placed.edges.length} arrows are too many: those of the chosen task are drawn.</span>}
        <span className="graph-zoom">
          <button className="small" aria-label="Smaller" title="Smaller; also - and Ctrl with the wheel" onClick={() => zoomTo(zoom / STEP)} disabled={zoom <= LEAST_ZOOM}>
            −
          </button>
          <span className="number">{Math.round(zoom * 100)} %</span>
          <button className="small" aria-label="Larger" title="Larger; also + and Ctrl with the wheel" onClick={() => zoomTo(zoom * STEP)} disabled={zoom >= MOST_ZOOM}>
            +
          </button>
          <button className="small" title="All of it; also 0" onClick={() => zoomTo(whole)}>
            Fit
          </button>
        </span>
      </div>
      <div
        className="dag"
        tabIndex={-1}
        ref={box}
        onScroll={look}
        onKeyDown={(e) => onKey(e)}
        onPointerDown={(e) => {
          const element = box.current;
          if (element === null || e.button !== 0 || e.pointerType !== "mouse" || e.target === element) return;
          drag.current = { x: e.clientX, y: e.clientY, left: element.scrollLeft, top: element.scrollTop, moved: false };
        }}
        onPointerMove={(e) => {
          const [element, from] = [box.current, drag.current];
          if (element === null || from === null) return;
          if (e.buttons === 0) return void (drag.current = null);
          if (!from.moved && Math.hypot(e.clientX - from.x, e.clientY - from.y) < 5) return;
          if (!from.moved) element.setPointerCapture?.(e.pointerId);
          from.moved = true;
          element.scrollLeft = from.left - (e.clientX - from.x);
          element.scrollTop = from.top - (e.clientY - from.y);
        }}
        onClickCapture={(e) => {
          // The end of a drag is no click.
          if (drag.current?.moved) e.stopPropagation();
          drag.current = null;
        }}
      >
        <svg
          width={placed.width * zoom}
          height={placed.height * zoom}
          viewBox={`0 0 ${placed.width} ${placed.height}`}
          role="group"
          aria-label="Tasks and what they need"
          onClick={onClick}
        >
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M0,0 L8,4 L0,8 z" className="arrowhead" />
            </marker>
          </defs>
          <Edges placed={placed} seen={seen} bulk={bulk} hidden={crowded} />
          {chosenId !== undefined && <OwnEdges edges={folded.edges} id={chosenId} placeOf={placeOf} />}
          {bulk &&
            TONES.map((tone) => {
              const d = inSight.map((node) => {
                const own = drawn.get(node.name);
                return own && !named.includes(node) && nodeTone(own) === tone ? `M${node.x - node.width / 2},${node.y - node.height / 2}h${node.width}v${node.height}h${-node.width}z` : "";
              });
              return <path key={tone} className={`bulk ${tone}`} d={d.join("")} />;
            })}
          {named.map((place) => {
            const node = drawn.get(place.name);
            if (node === undefined) return null;
            const own = { place, chosen: node.id === chosenId, tabIndex: node.id === stop ? 0 : -1 };
            const acts = { onClick: () => use(node), onKeyDown: (e: React.KeyboardEvent) => onKey(e, node), onFocus: () => setFocused(node.id) };
            return node.members === null ? (
              <TaskBox key={node.id} name={node.id} state={states.get(node.id) ?? "BLOCKED"} {...own} {...acts} />
            ) : (
              <GroupBox key={node.id} node={node} counts={countStates(node.members, states)} {...own} {...acts} />
            );
          })}
        </svg>
      </div>
    </section>
  );
});

const point = (x: number, y: number): Box => ({ left: x, right: x, top: y, bottom: y });

/** Arrows and the frames of grids; they don't follow the states. */
const Edges = memo(function Edges({ placed, seen, bulk, hidden }: { placed: Layout; seen: Box | null; bulk: boolean; hidden: boolean }) {
  const edges = hidden ? [] : seen === null ? placed.edges : placed.edges.filter((edge) => overlaps(edge.box, seen));
  return (
    <>
      {placed.frames.map((frame) => (
        <rect key={`${frame.left} ${frame.top}`} className="frame" x={frame.left} y={frame.top} width={frame.right - frame.left} height={frame.bottom - frame.top} rx="9" />
      ))}
      {bulk
        ? [...new Set(edges.map((e) => e.on))].map((on) => (
            <path key={on} className={`edge on-${on}`} d={edges.flatMap((e) => (e.on === on ? [e.d] : [])).join("")} />
          ))
        : edges.map((e) => (
            <path key={`${e.source}\n${e.target}\n${e.on}`} d={e.d} className={`edge on-${e.on}`} markerEnd="url(#arrow)">
              <title>{e.count > 1 ? `${e.count} arrows: ${e.on}` : `${groupLabel(e.target)} needs ${groupLabel(e.source)}: ${e.on}`}</title>
            </path>
          ))}
    </>
  );
});

/** What the chosen task needs and is needed by, also where one arrow stands for all of a grid. */
const OwnEdges = memo(function OwnEdges({ edges, id, placeOf }: { edges: readonly GraphEdge[]; id: string; placeOf: ReadonlyMap<string, PlacedNode> }) {
  return edges
    .filter((e) => e.source === id || e.target === id)
    .slice(0, MOST_NAMED)
    .map((e) => {
      const [from, to] = [placeOf.get(e.source), placeOf.get(e.target)];
      return from && to && <path key={`${e.source}\n${e.target}\n${e.on}`} className={`own-edge on-${e.on}`} d={direct(from, to)} />;
    });
});
