/** What changed in the form, written into the file in place: comments, order, quotes and anchors around it stay. */
import { type Node, Pair, type Scalar, YAMLMap, type YAMLSeq, isMap, isScalar, isSeq } from "yaml";

import { INPUTS, TASK_KEYS, type TaskInput } from "../api/generated/task-fields";
import { type JobForm, type NeedRow, type PairRow, type TaskForm, argv, blankTask, fieldOf } from "./form";
import { readForm } from "./read-form";
import { type How, YamlFile, commentsOf, firstSaid, isText, keyOf, valueOf } from "./yaml-file";

const ROOT_KEYS = ["version", "name", "priority", "defaults", "tasks"] as const;
const RESOURCE_KEYS = INPUTS.filter((input: TaskInput) => input.under === "resources").map((input) => input.key);
/** In the order of the reference, whatever the order of the form. */
const ORDER: { readonly [under: string]: readonly string[] } = {
  "": TASK_KEYS,
  resources: ["cpus", "memory", "shm", "gpus", "gpu_model", "gpu_memory", ...RESOURCE_KEYS],
};

const NEW = "version: 1\n";

/** The file of a form that was never one. */
export const textOf = (form: JobForm): string => carried(NEW, form);

/** The file with what changed in its form. `text`: the file that the form was read from; the same if nothing changed. */
export function carried(text: string, form: JobForm): string {
  const read = readForm(text);
  if (read.form === null) return text;
  const file = new YamlFile(text);
  const writing = new Writing(file);
  writing.job(read.form, form);
  return writing.changed ? file.printed() : text;
}

class Writing {
  changed = false;
  constructor(private readonly file: YamlFile) {}

  job(before: JobForm, after: JobForm): void {
    const { doc } = this.file;
    if (!isMap(doc.contents)) {
      if (same(before, after)) return;
      doc.contents = new YAMLMap(doc.schema) as never;
      this.changed = true;
    }
    const root = doc.contents as unknown as YAMLMap;
    for (const key of ["name", "priority"] as const) {
      if (before[key] !== after[key] || undone(before, after, key)) this.text(root, key, after[key], "text", ROOT_KEYS);
    }
    this.defaults(root, before.defaults, after.defaults);
    this.tasks(root, before.tasks, after.tasks);
  }

  private defaults(root: YAMLMap, before: TaskForm | null, after: TaskForm | null): void {
    if (after === null) {
      if (before !== null) this.drop(root, "defaults");
      return;
    }
    const blank = blankTask("defaults");
    if (same(before ?? blank, after)) return;
    const map = this.mapAt(root, "defaults", ROOT_KEYS, false);
    this.task(map, before ?? blank, after);
    if (map.items.length === 0) this.drop(root, "defaults");
  }

  private tasks(root: YAMLMap, before: readonly TaskForm[], after: readonly TaskForm[]): void {
    const moved = before.length !== after.length || after.some((task, index) => task.at !== index);
    if (!moved && after.every((task, index) => same(before[index], task))) return;
    let pair = find(root, "tasks");
    if (pair === undefined || !isSeq(this.file.owned(pair))) {
      const list = this.file.list([]);
      list.flow = this.file.map().flow ?? false;
      if (pair === undefined) this.file.insert(root, "tasks", list, ROOT_KEYS);
      else this.file.replace(pair, list);
      pair = find(root, "tasks");
      this.changed = true;
    }
    const list = pair?.value as YAMLSeq;
    after.forEach((task) => {
      const old = task.at === undefined ? undefined : before[task.at];
      if (task.at === undefined || old === undefined || same(old, task)) return;
      const map = this.file.ownedItem(list, task.at);
      if (isMap(map)) this.task(map, old, task);
    });
    if (!moved) return;
    this.changed = true;
    const left = new Set(after.map((task) => task.at));
    list.items.forEach((item, index) => {
      if (!left.has(index)) this.file.leaving(item);
    });
    if (pair !== undefined && !left.has(0)) list.commentBefore = firstSaid(pair).ofList || null;
    const items = [...list.items];
    const apart = (items.at(-1) as Node | undefined)?.spaceBefore ?? false;
    list.items = after.map((task) => {
      const old = task.at === undefined ? undefined : items[task.at];
      if (old !== undefined) return old;
      const map = this.file.map();
      if (apart) map.spaceBefore = true;
      this.task(map, blankTask(task.key), task);
      return map;
    });
    const first = list.items[0] as Node | undefined;
    if (first !== undefined && first !== items[0]) first.spaceBefore = false;
    if (list.items.length > 0 && !list.items.some((item) => items.includes(item))) list.flow = this.file.map().flow ?? false;
  }

  private task(map: YAMLMap, before: TaskForm, after: TaskForm): void {
    for (const key of ["name", "image"] as const) {
      if (before[key] !== after[key] || undone(before, after, key)) this.text(map, key, after[key], "text", TASK_KEYS);
    }
    if (before.command !== after.command || before.mode !== after.mode || undone(before, after, "command")) this.command(map, after);
    for (const input of INPUTS as readonly TaskInput[]) {
      const [old, fresh] = [before[input.key as keyof TaskForm] as string, after[input.key as keyof TaskForm] as string];
      if (old === fresh && !undone(before, after, fieldOf(input))) continue;
      this.input(map, input, input.exact ? fresh : fresh.trim());
    }
    if (!same(inFile(before.needs), inFile(after.needs)) || undone(before, after, "needs")) this.needs(map, after.needs);
    for (const key of ["datasets", "secrets"] as const) {
      if (!same(before[key], after[key]) || undone(before, after, key)) this.listAt(map, key, after[key], TASK_KEYS);
    }
    for (const key of ["env", "ulimits"] as const) if (!same(before[key], after[key])) this.pairs(map, key, before[key], after[key]);
  }

  private input(map: YAMLMap, input: TaskInput, value: string): void {
    const order = ORDER[input.under] ?? [];
    if (input.under !== "" && value === "" && find(map, input.under) === undefined) return;
    const home = input.under === "" ? map : this.mapAt(map, input.under, TASK_KEYS, true);
    const listed = input.kind === "list" ? value.split(",").map((part) => part.trim()).filter(Boolean) : [];
    if (listed.length > 1 || isSeq(find(home, input.key)?.value)) this.listAt(home, input.key, listed, order);
    else this.text(home, input.key, input.kind === "list" ? (listed[0] ?? "") : value, input.kind === "number" ? "number" : "text", order);
    if (input.under !== "" && home.items.length === 0) this.drop(map, input.under);
  }

  /** A text at a key; an empty one is no key. */
  private text(map: YAMLMap, key: string, value: string, how: How, order: readonly string[]): void {
    this.changed = true;
    const pair = find(map, key);
    if (value === "") return this.drop(map, key);
    if (pair === undefined) return this.file.insert(map, key, this.file.scalar(value, how), order);
    this.put(pair, value, how);
  }

  private put(pair: Pair, value: string, how: How): void {
    this.changed = true;
    const node = this.file.owned(pair);
    if (isScalar(node)) this.file.write(node, value, how);
    else this.file.replace(pair, this.file.scalar(value, how));
  }

  private drop(map: YAMLMap, key: string): void {
    const pair = find(map, key);
    if (pair === undefined) return;
    this.changed = true;
    this.file.remove(map, pair);
  }

  private mapAt(map: YAMLMap, key: string, order: readonly string[], flow: boolean): YAMLMap {
    const pair = find(map, key);
    const there = pair === undefined ? undefined : this.file.owned(pair);
    if (isMap(there)) return there;
    this.changed = true;
    const made = this.file.map(flow);
    if (pair === undefined) this.file.insert(map, key, made, order);
    else this.file.replace(pair, made);
    return made;
  }

  /** A list of texts; the entries that stay keep what stands at them. */
  private listAt(map: YAMLMap, key: string, values: readonly string[], order: readonly string[]): void {
    this.changed = true;
    if (values.length === 0) return this.drop(map, key);
    const pair = find(map, key);
    const there = pair === undefined ? undefined : this.file.owned(pair);
    if (pair === undefined) return this.file.insert(map, key, this.file.list(values), order);
    if (!isSeq(there)) return this.file.replace(pair, this.file.list(values));
    this.entries(there, values);
  }

  private entries(list: YAMLSeq, values: readonly string[]): void {
    const valueAt = (item: unknown): string | null => {
      const node = this.file.resolved(item);
      return isScalar(node) ? valueOf(node) : null;
    };
    const left = [...list.items];
    // First those that are there already, wherever they stood; a new word takes the place of one that went.
    const kept = values.map((value) => {
      const index = left.findIndex((item) => item !== null && valueAt(item) === value);
      if (index < 0) return null;
      const [item] = left.splice(index, 1, null);
      return item;
    });
    const gone = left.filter((item) => item !== null);
    for (const item of gone) this.file.leaving(item);
    const said = list.flow ? "" : gone.slice(values.length - kept.filter((item) => item !== null).length).flatMap(commentsOf).join("\n");
    if (said !== "") list.comment = list.comment ? `${list.comment}\n${said}` : said;
    list.items = values.map((value, index) => {
      const item = kept[index] ?? gone.shift() ?? this.file.scalar(value);
      if (!isScalar(item)) return kept[index] ?? this.file.scalar(value);
      // A number among words gets the quotes that it lacked; any other word stays as it is.
      if (item.value !== value || !isText(item)) this.file.write(item, value);
      return item;
    });
  }

  private command(map: YAMLMap, task: TaskForm): void {
    if (task.command === "") return this.text(map, "command", "", "text", TASK_KEYS);
    if (task.mode === "argv") return this.listAt(map, "command", argv(task.command), TASK_KEYS);
    this.text(map, "command", task.command, "text", TASK_KEYS);
  }

  private needs(map: YAMLMap, rows: readonly NeedRow[]): void {
    this.changed = true;
    if (rows.length === 0) return this.drop(map, "needs");
    const pair = find(map, "needs");
    const there = pair === undefined ? undefined : this.file.owned(pair);
    const plain = rows.every((row) => row.on === "success");
    if (!isMap(there) && plain) return this.listAt(map, "needs", rows.map((row) => row.task), TASK_KEYS);
    const old = isMap(there) ? [...there.items] : [];
    const home = isMap(there) ? there : this.file.map(true);
    home.items = rows.map((row) => {
      const kept = isMap(there) && row.at !== undefined ? old[row.at] : undefined;
      if (kept === undefined) return new Pair(this.file.key(row.task), this.file.scalar(row.on));
      if (isScalar(kept.key) && keyOf(kept) !== row.task) this.file.write(kept.key, row.task);
      const on = this.file.resolved(kept.value);
      if (!isScalar(on) || valueOf(on) !== row.on) this.put(kept, row.on, "text");
      return kept;
    });
    for (const gone of old) if (!home.items.includes(gone)) this.file.leaving(gone.value);
    if (pair === undefined) this.file.insert(map, "needs", home, TASK_KEYS);
    else if (home !== there) this.file.replace(pair, home);
  }

  private pairs(map: YAMLMap, key: "env" | "ulimits", before: readonly PairRow[], after: readonly PairRow[]): void {
    // A row that nothing was typed into yet is none.
    const rows = after.filter((row) => row.at !== undefined || row.name !== "" || row.value !== "");
    if (rows.length === 0) {
      if (before.length > 0) this.drop(map, key);
      return;
    }
    const there = find(map, key);
    if (there === undefined && rows.length === 0) return;
    const home = this.mapAt(map, key, TASK_KEYS, key === "ulimits");
    const old = [...home.items];
    const stays = new Set(rows.map((row) => row.at));
    old.forEach((pair, index) => {
      if (!stays.has(index)) this.file.remove(home, pair);
    });
    for (const row of rows) {
      const pair = row.at === undefined ? undefined : old[row.at];
      const was = row.at === undefined ? undefined : before[row.at];
      if (pair === undefined || was === undefined) {
        const made = new Pair(this.file.key(row.name), key === "env" ? this.file.scalar(row.value, "quoted") : this.limit(row.value));
        home.items.push(made);
        this.changed = true;
        continue;
      }
      if (was.name !== row.name && isScalar(pair.key)) {
        this.changed = true;
        this.file.write(pair.key, row.name);
      }
      if (was.value === row.value && (was.loose ?? false) === (row.loose ?? false)) continue;
      if (key === "env") this.put(pair, row.value, "quoted");
      else this.putLimit(pair, row.value);
    }
    this.changed = true;
  }

  private limit(value: string): Scalar | YAMLMap {
    const [soft = "", hard] = value.split(":");
    if (hard === undefined) return this.file.scalar(value.trim(), "number");
    const both = this.file.map(true);
    both.items = [
      new Pair(this.file.key("soft"), this.file.scalar(soft.trim(), "number")),
      new Pair(this.file.key("hard"), this.file.scalar(hard.trim(), "number")),
    ];
    return both;
  }

  private putLimit(pair: Pair, value: string): void {
    const node = this.file.owned(pair);
    const [soft = "", hard] = value.split(":");
    if (hard === undefined && isScalar(node)) this.put(pair, value.trim(), "number");
    else if (hard !== undefined && isMap(node)) {
      for (const [part, text] of [["soft", soft], ["hard", hard]] as const) {
        const one = find(node, part);
        if (one !== undefined) this.put(one, text.trim(), "number");
      }
    } else this.file.replace(pair, this.limit(value));
    this.changed = true;
  }
}

/** What of needs stands in the file. */
const inFile = (rows: readonly NeedRow[]): unknown => rows.map(({ at, task, on }) => [at, task, on]);

const find = (map: YAMLMap, key: string): Pair | undefined => map.items.find((pair) => keyOf(pair) === key);

const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

/** Whether a field that the file wrote as something else was typed into, so that it is a text from now on. */
const undone = (before: { readonly loose: readonly string[] }, after: { readonly loose: readonly string[] }, field: string): boolean =>
  before.loose.includes(field) && !after.loose.includes(field);
