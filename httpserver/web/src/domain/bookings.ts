/** Who has what: words for GPUs, and what events change of it. */
import type { Attempt, Booking, GpuState, Node, NodeList } from "../api/client";
import { gpus, size } from "./format";
import type { Tone } from "./states";

type Gpu = Node["gpus"][number];
type Share = NonNullable<Attempt["sharing"]>;

/** A new state does not compile until the page has a word for it. */
const words: Record<GpuState, { readonly word: string; readonly tone: Tone }> = {
  free: { word: "free", tone: "good" },
  booked: { word: "booked", tone: "live" },
  sick: { word: "faulty", tone: "bad" },
  busy_outside: { word: "used by a program outside Headway", tone: "wait" },
  closed: { word: "closed", tone: "muted" },
  shared: { word: "shared", tone: "live" },
};

/** The state of a GPU in a word; a server that is too old tells none. */
export function gpuWord(gpu: Pick<Gpu, "state" | "sick" | "busy_outside">): { readonly word: string; readonly tone: Tone } {
  const { state } = gpu;
  if (state === "booked" && gpu.sick) return { word: "booked, faulty", tone: "bad" };
  if (state) return words[state];
  if (gpu.sick) return words.sick;
  return gpu.busy_outside ? words.busy_outside : { word: "not known", tone: "muted" };
}

/** The state of a GPU, and what its machine says of it. */
export function gpuTold(gpu: Pick<Gpu, "state" | "sick" | "busy_outside" | "note">): string {
  const { word } = gpuWord(gpu);
  return gpu.note ? `${word}: ${gpu.note}` : word;
}

/** What of a shared GPU is free, as a sentence; empty: it is not shared, or nobody knows. */
export function freeShare(gpu: Pick<Gpu, "shared" | "free_share_bytes">): string {
  if (!gpu.shared || gpu.free_share_bytes == null) return "";
  return gpu.free_share_bytes > 0 ? `Room for a share of ${size(gpu.free_share_bytes)}.` : "No room for a share.";
}

/** Whom an attempt shares its GPU with, as a sentence. */
export function sharesWith(share: Share, node: string): string {
  if (share.gpu_index === null) return `had a share of a GPU: ${size(share.share_bytes)}`;
  const others = share.others.map((one) => `${one.owner}’s ${one.job_name}/${one.task} (${size(one.share_bytes)})`);
  const whom = others.length > 0 ? others.join(" and ") : "nobody now";
  return `shares GPU ${share.gpu_index} of ${node} with ${whom}; it has ${size(share.share_bytes)}`;
}

/** How many GPUs the tasks of each job hold now; null: not known. */
export function gpusByJob(list: NodeList | undefined): ReadonlyMap<string, number> | null {
  if (list?.gpus?.free == null) return null;
  const held = new Map<string, number>();
  for (const booking of list.nodes.flatMap((node) => node.gpus).flatMap((gpu) => [gpu.booking, ...(gpu.shares ?? [])])) {
    if (booking) held.set(booking.job_id, (held.get(booking.job_id) ?? 0) + 1);
  }
  return held;
}

/** What is free now, as a sentence; when the next one is free is told apart, with its clock. */
export function freeNow(list: NodeList): string {
  const told = list.gpus;
  if (list.nodes.length === 0) return "No machine has registered yet.";
  if (!told || told.free === null) return `${gpus(list.nodes.flatMap((node) => node.gpus).length)}.`;
  if (told.total === 0) return "No machine here has a GPU. Tasks run on CPUs.";
  const unusable = told.unusable ? ` ${told.unusable} can’t be used now.` : "";
  return `${told.free} of ${gpus(told.total)} free now.${unusable}`;
}

/** Events tell what is measured. What is booked stays as it was last told, until the list is asked for again. */
export function keepBookings(old: Node | undefined, fresh: Node): Node {
  if (old === undefined || fresh.booked !== null) return fresh;
  const known = new Map(old.gpus.map((gpu) => [gpu.uuid, gpu]));
  const kept = fresh.gpus.map((gpu) => {
    const before = known.get(gpu.uuid);
    return before === undefined ? gpu : { ...gpu, state: before.state, booking: before.booking, shares: before.shares, free_share_bytes: before.free_share_bytes };
  });
  return { ...fresh, booked: old.booked, gpus: kept };
}

/** The list with this machine as an event tells it. */
export function withNode(list: NodeList, fresh: Node): NodeList {
  const node = keepBookings(
    list.nodes.find((one) => one.id === fresh.id),
    fresh,
  );
  const others = list.nodes.filter((one) => one.id !== fresh.id);
  return { ...list, nodes: [...others, node].sort((a, b) => a.id.localeCompare(b.id)) };
}

export const taskAddress = (booking: Pick<Booking, "job_id" | "task">): string => `/jobs/${booking.job_id}/${encodeURIComponent(booking.task)}`;
