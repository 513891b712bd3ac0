/** Which of the waiting tasks are looked for, and which of them are on screen. */

interface Waiting {
  readonly job_id: string;
  readonly job_name: string;
  readonly task: string;
  readonly owner: string;
}

export interface Filter {
  /** An account; empty: everybody's. */
  readonly owner: string;
  /** Part of an owner's, a job's or a task's name, or of an id. */
  readonly text: string;
}

export const filters = ({ owner, text }: Filter): boolean => owner !== "" || text.trim() !== "";

export function found<T extends Waiting>(entries: readonly T[], { owner, text }: Filter): T[] {
  const part = text.trim().toLowerCase();
  return entries.filter(
    (entry) =>
      (owner === "" || entry.owner === owner) &&
      (part === "" ||
        [entry.owner, `${entry.job_name} / ${entry.task}`, `${entry.job_id}/${entry.task}`].some((text) => text.toLowerCase().includes(part))),
  );
}

/** Where the last page begins. */
export const lastOffset = (total: number, page: number): number => Math.max(0, Math.ceil(total / page) - 1) * page;
