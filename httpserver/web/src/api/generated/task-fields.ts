// Written by scripts/render_fields from headway/jobfile/spec.py: never edit.

/** The keys of a task, in the order of a job file. */
export const TASK_KEYS = ["name", "needs", "image", "command", "shell", "entrypoint", "env", "working_dir", "code", "datasets", "resources", "ulimits", "timeout", "grace", "retries", "user", "network", "output_path", "log_limit", "log_limit_action"] as const;

/** An input of the form that is nothing but an input. */
export interface TaskInput {
  readonly key: string;
  /** The key of the mapping that it is in; empty: none. */
  readonly under: string;
  readonly kind: "text" | "number" | "choice";
  readonly mode: "" | "numeric" | "decimal";
  readonly choices: readonly string[];
  readonly label: string;
  readonly hint: string;
  readonly placeholder: string;
  /** What a new task has in it. */
  readonly start: string;
  /** In characters. */
  readonly width: number | null;
  readonly required: boolean;
  /** Whether the job file says it also when it is what a new task has. */
  readonly always: boolean;
  /** Whether spaces at both ends are meant. */
  readonly exact: boolean;
}

/** In the order of the form. */
export const INPUTS = [
  {"key": "timeout", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Timeout", "hint": "90s, 15m, 2h", "placeholder": "", "start": "10m", "width": 8, "required": true, "always": true, "exact": false},
  {"key": "retries", "under": "", "kind": "number", "mode": "numeric", "choices": [], "label": "Retries", "hint": "", "placeholder": "", "start": "0", "width": 4, "required": false, "always": false, "exact": false},
  {"key": "cpus", "under": "resources", "kind": "number", "mode": "decimal", "choices": [], "label": "CPUs", "hint": "", "placeholder": "", "start": "1", "width": 5, "required": false, "always": true, "exact": false},
  {"key": "memory", "under": "resources", "kind": "text", "mode": "", "choices": [], "label": "Memory", "hint": "4GiB", "placeholder": "", "start": "2GiB", "width": 8, "required": false, "always": true, "exact": false},
  {"key": "gpus", "under": "resources", "kind": "number", "mode": "numeric", "choices": [], "label": "GPUs", "hint": "", "placeholder": "", "start": "0", "width": 4, "required": false, "always": true, "exact": false},
  {"key": "working_dir", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Working folder", "hint": "the image's if empty", "placeholder": "/root/nfs", "start": "", "width": null, "required": false, "always": false, "exact": true},
  {"key": "network", "under": "", "kind": "choice", "mode": "", "choices": ["outgoing", "job", "none"], "label": "Network", "hint": "", "placeholder": "", "start": "outgoing", "width": null, "required": false, "always": false, "exact": false},
] as const satisfies readonly TaskInput[];
