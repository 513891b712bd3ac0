/** The boxes of a graph: a task, and many as one. */
import type { TaskState } from "../api/client";
import { type DrawnNode, countText } from "../domain/fold";
import { type PlacedNode, shorten } from "../domain/graph";
import { type Tone, label, taskTone } from "../domain/states";

/** What asks for a look first comes first. */
export const TONES: readonly Tone[] = ["bad", "live", "wait", "good", "muted"];

/** Of many, the tone that asks for a look first; good only when all are. */
export function toneOf(counts: readonly (readonly [TaskState, number])[]): Tone {
  const tones = new Set(counts.map(([state]) => taskTone[state]));
  return TONES.find((tone) => tones.has(tone) && (tone !== "good" || tones.size === 1)) ?? "muted";
}

interface BoxProps {
  readonly place: PlacedNode;
  readonly chosen: boolean;
  readonly tabIndex: number;
  readonly onClick: () => void;
  readonly onKeyDown: (event: React.KeyboardEvent) => void;
  readonly onFocus: () => void;
}

export function TaskBox({ name, state, place, chosen, ...acts }: BoxProps & { name: string; state: TaskState }) {
  return (
    <g
      className={`task ${taskTone[state]}${chosen ? " chosen" : ""}`}
      data-id={name}
      data-task={name}
      data-state={state}
      transform={`translate(${place.x - place.width / 2},${place.y - place.height / 2})`}
      role="button"
      aria-label={`${name}: ${label(state)}`}
      {...acts}
    >
      <title>{`${name}: ${label(state)}`}</title>
      <rect width={place.width} height={place.height} rx="7" />
      <circle cx="15" cy={place.height / 2} r="5" />
      <text x="28" y={place.height / 2} dominantBaseline="central">
        {shorten(name)}
      </text>
    </g>
  );
}

/** Many tasks as one box, with a bar of their states. */
export function GroupBox({ node, counts, place, chosen, ...acts }: BoxProps & { node: DrawnNode; counts: [TaskState, number][] }) {
  const total = node.members?.length ?? 0;
  const ofState = counts.length === 1 && node.label === label(counts[0]?.[0] ?? "");
  const told = ofState ? `${total} ${node.label}` : `${node.label}, ${total} tasks: ${countText(counts)}`;
  const length = place.width - 24;
  let at = 12;
  return (
    <g
      className={`task group ${toneOf(counts)}${chosen ? " chosen" : ""}`}
      data-id={node.id}
      data-fold={node.label}
      transform={`translate(${place.x - place.width / 2},${place.y - place.height / 2})`}
      role="button"
      aria-label={`${told}. Unfold`}
      aria-expanded={false}
      {...acts}
    >
      <title>{`${told}. A click unfolds them.`}</title>
      <rect className="behind" x="5" y="5" width={place.width} height={place.height} rx="7" />
      <rect width={place.width} height={place.height} rx="7" />
      <text x="12" y="17" dominantBaseline="central">
        {ofState ? `${total} ${node.label}` : `${shorten(node.label)} (${total})`}
      </text>
      {counts.map(([state, n]) => {
        // One of hundreds is still to be seen.
        const width = Math.max(2, ((length - 2 * counts.length) * n) / total + 2);
        const x = at;
        at += width;
        return <rect key={state} className={`share ${taskTone[state]}`} x={x} y="28" width={width} height="4" />;
      })}
      <text className="counts" x="12" y="43" dominantBaseline="central">
        {ofState ? "" : shorten(countText(counts), Math.floor(length / 6))}
      </text>
    </g>
  );
}
