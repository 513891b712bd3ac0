/** Which of the waiting tasks are looked for, and which of them are on screen. */

interface Waiting {
  readonly job_id: string;
  readonly job_name: string;
  readonly task: string;
  readonly owner: string;
}

/** Those that have `text` in an owner's, a job's or a task's name, or in an id. */
export function found<T extends Waiting>(entries: readonly T[], text: string): T[] {
  const part = text.trim().toLowerCase();
  return entries.filter((entry) =>
    [entry.owner, `${entry.job_name} / ${entry.task}`, `${entry.job_id}/${entry.task}`].some((text) => text.toLowerCase().includes(part)),
  );
}

/** Where the last page begins. */
export const lastOffset = (total: number, page: number): number => Math.max(0, Math.ceil(total / page) - 1) * page;
