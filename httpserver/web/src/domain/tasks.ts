/** Tasks as the server's sentences name them: JOB/TASK. */

export interface TaskRef {
  readonly job: string;
  /** Empty: the job as a whole. */
  readonly task: string;
}

// Ids of jobs are a j and sixteen digits of Crockford's base 32.
const REF = /(?<![\w/])(j[0-9a-hjkmnp-tv-z]{16})(?:\/([A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9_-])?))?(?![A-Za-z0-9])/g;

/** The text in its order, with what names a task taken out. A dot at its end is the sentence's. */
export function splitTasks(text: string): (string | TaskRef)[] {
  const parts: (string | TaskRef)[] = [];
  let from = 0;
  for (const found of text.matchAll(REF)) {
    if (found.index > from) parts.push(text.slice(from, found.index));
    parts.push({ job: found[1] ?? "", task: found[2] ?? "" });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

const LONG = 40;

/** A name amid a sentence; the whole of it stands where it is pointed at. */
export function shortened(name: string): string {
  const letters = [...name];
  return letters.length <= LONG ? name : `${letters.slice(0, LONG - 1).join("")}…`;
}
