/** Processes on a GPU that Headway did not start, in words. */
import type { Node } from "../api/client";
import { size } from "./format";
import { visible } from "./paths";

type Process = Node["gpus"][number]["processes"][number];

/** "without Headway: python train.py of ann, 300 MiB (process 4711)". */
export function processText(process: Process): string {
  const by = process.owner ? ` of ${visible(process.owner)}` : "";
  const used = process.memory_used_bytes === null ? "" : `, ${size(process.memory_used_bytes)}`;
  const what = visible(process.command);
  return what ? `without Headway: ${what}${by}${used} (process ${process.pid})` : `without Headway: process ${process.pid}${by}${used}`;
}
