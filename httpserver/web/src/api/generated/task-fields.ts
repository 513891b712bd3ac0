// Written by scripts/render_fields from headway/jobfile/spec.py: never edit.

/** The keys of a task, in the order of a job file. */
export const TASK_KEYS = ["name", "needs", "image", "command", "shell", "entrypoint", "env", "secrets", "working_dir", "code", "datasets", "resources", "ulimits", "timeout", "grace", "retries", "user", "network", "output_path", "log_limit", "log_limit_action"] as const;

/** An input of the form that is nothing but an input. */
export interface TaskInput {
  readonly key: string;
  /** The key of the mapping that it is in; empty: none. */
  readonly under: string;
  /** `list`: texts with commas between. */
  readonly kind: "text" | "number" | "choice" | "list";
  readonly mode: "" | "numeric" | "decimal";
  readonly choices: readonly string[];
  readonly label: string;
  readonly hint: string;
  readonly placeholder: string;
  /** What a new task has in it, and its file says. */
  readonly start: string;
  /** What holds where nothing is said; empty: nothing does. */
  readonly otherwise: string;
  /** In characters. */
  readonly width: number | null;
  readonly required: boolean;
  /** Whether spaces at both ends are meant. */
  readonly exact: boolean;
  /** Whether it is seldom used: in the part that is folded. */
  readonly more: boolean;
}

/** In the order of the form. */
export const INPUTS = [
  {"key": "timeout", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Timeout", "hint": "90s, 15m, 2h", "placeholder": "", "start": "10m", "otherwise": "", "width": 8, "required": true, "exact": false, "more": false},
  {"key": "retries", "under": "", "kind": "number", "mode": "numeric", "choices": [], "label": "Retries", "hint": "", "placeholder": "", "start": "", "otherwise": "0", "width": 4, "required": false, "exact": false, "more": false},
  {"key": "cpus", "under": "resources", "kind": "number", "mode": "decimal", "choices": [], "label": "CPUs", "hint": "", "placeholder": "", "start": "1", "otherwise": "1", "width": 5, "required": false, "exact": false, "more": false},
  {"key": "memory", "under": "resources", "kind": "text", "mode": "", "choices": [], "label": "Memory", "hint": "4GiB", "placeholder": "", "start": "2GiB", "otherwise": "2GiB", "width": 8, "required": false, "exact": false, "more": false},
  {"key": "gpus", "under": "resources", "kind": "number", "mode": "numeric", "choices": [], "label": "GPUs", "hint": "", "placeholder": "", "start": "0", "otherwise": "0", "width": 4, "required": false, "exact": false, "more": false},
  {"key": "working_dir", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Working folder", "hint": "the image's if empty", "placeholder": "/root/nfs", "start": "", "otherwise": "/root/code where there is code, else the image's", "width": null, "required": false, "exact": true, "more": false},
  {"key": "gpu_share", "under": "resources", "kind": "text", "mode": "", "choices": [], "label": "Share of a GPU", "hint": "6GiB, shared", "placeholder": "", "start": "", "otherwise": "", "width": 8, "required": false, "exact": false, "more": true},
  {"key": "network", "under": "", "kind": "choice", "mode": "", "choices": ["outgoing", "job", "none"], "label": "Network", "hint": "", "placeholder": "", "start": "", "otherwise": "outgoing", "width": null, "required": false, "exact": false, "more": false},
  {"key": "shell", "under": "", "kind": "choice", "mode": "", "choices": ["sh", "bash"], "label": "Shell", "hint": "of a script", "placeholder": "", "start": "", "otherwise": "sh", "width": null, "required": false, "exact": false, "more": true},
  {"key": "entrypoint", "under": "", "kind": "choice", "mode": "", "choices": ["replace", "image"], "label": "Entrypoint of the image", "hint": "", "placeholder": "", "start": "", "otherwise": "replace", "width": null, "required": false, "exact": false, "more": true},
  {"key": "grace", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Grace", "hint": "from TERM to KILL", "placeholder": "", "start": "", "otherwise": "10s", "width": 8, "required": false, "exact": false, "more": true},
  {"key": "user", "under": "", "kind": "choice", "mode": "", "choices": ["account", "image"], "label": "Runs as", "hint": "", "placeholder": "", "start": "", "otherwise": "account", "width": null, "required": false, "exact": false, "more": true},
  {"key": "shm", "under": "resources", "kind": "text", "mode": "", "choices": [], "label": "Shared memory", "hint": "/dev/shm", "placeholder": "", "start": "", "otherwise": "half of memory", "width": 12, "required": false, "exact": false, "more": true},
  {"key": "gpu_model", "under": "resources", "kind": "list", "mode": "", "choices": [], "label": "GPU models", "hint": "any of A100, H100", "placeholder": "", "start": "", "otherwise": "any", "width": null, "required": false, "exact": false, "more": true},
  {"key": "gpu_memory", "under": "resources", "kind": "text", "mode": "", "choices": [], "label": "Memory of each GPU", "hint": "at least, 24GiB", "placeholder": "", "start": "", "otherwise": "any", "width": 8, "required": false, "exact": false, "more": true},
  {"key": "log_limit", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Size of its log", "hint": "1GiB", "placeholder": "", "start": "", "otherwise": "1GiB", "width": 8, "required": false, "exact": false, "more": true},
  {"key": "log_limit_action", "under": "", "kind": "choice", "mode": "", "choices": ["drop", "kill"], "label": "Past that size", "hint": "", "placeholder": "", "start": "", "otherwise": "drop", "width": null, "required": false, "exact": false, "more": true},
  {"key": "output_path", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Output also to", "hint": "a folder of your files", "placeholder": "results/run1", "start": "", "otherwise": "", "width": null, "required": false, "exact": true, "more": true},
  {"key": "code", "under": "", "kind": "text", "mode": "", "choices": [], "label": "Code", "hint": "digest of a snapshot", "placeholder": "sha256:…", "start": "", "otherwise": "", "width": null, "required": false, "exact": false, "more": true},
] as const satisfies readonly TaskInput[];
