/** Numbers for people. */
import { zone } from "./zone";

/** A duration of two units at most: 850 ms, 4.2 s, 3 m 10 s, 2 h 5 m, 3 d 4 h. */
export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.max(0, seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${Number(s.toFixed(1))} s`;
  const whole = Math.floor(s);
  const units: [number, string, number, string][] = [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "m"],
    [60, "m", 1, "s"],
  ];
  for (const [size, unit, small, smallUnit] of units) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / small);
      return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
    }
  }
  return `${whole} s`;
}

/** Bytes in binary units: 1.5 GiB. */
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return unit === "B" || value >= 100 ? `${Math.round(value)} ${unit}` : `${value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

/** 1 GPU, 2 GPUs. */
/** What a task has or asks for of GPUs: `2 GPUs`, `6 GiB of a GPU`; empty: nothing. */
export function gpusAsked(asked: { readonly gpus: number; readonly gpu_share_bytes?: number | null }): string {
  if (asked.gpu_share_bytes) return `${size(asked.gpu_share_bytes)} of a GPU`;
  return asked.gpus > 0 ? gpus(asked.gpus) : "";
}

export const gpus = (count: number): string => `${count} GPU${count === 1 ? "" : "s"}`;

/** A moment by the reader's own clock, with its zone; only the time when it is today. */
export function moment(at: number | null | undefined, now: number = Date.now() / 1000): string {
  if (at === null || at === undefined) return "–";
  const date = new Date(at * 1000);
  const sameDay = date.toDateString() === new Date(now * 1000).toDateString();
  return `${sameDay ? date.toLocaleTimeString() : date.toLocaleString()} ${zone(date)}`;
}

/** "memlock unlimited, nofile 1048576" */
export function ulimits(most: { readonly [name: string]: number }): string {
  const told = (name: string, value: number): string => (value < 0 ? "unlimited" : name === "memlock" ? size(value) : String(value));
  return Object.entries(most)
    .map(([name, value]) => `${name} ${told(name, value)}`)
    .join(", ");
}
