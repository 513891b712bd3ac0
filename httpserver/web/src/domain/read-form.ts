/** A job file and the form that shows it: read from it, and edited in place by what changed in the form. */
import { type Pair, type YAMLMap, isMap, isScalar, isSeq, visit } from "yaml";

import { INPUTS, TASK_KEYS, type TaskInput } from "../api/generated/task-fields";
import { type JobForm, MOST_TASKS, type NeedRow, type PairRow, type TaskForm, blankTask, bound, fieldOf } from "./form";
import { CantShow, YamlFile, commentsOf, firstSaid, isText, keyOf, valueOf } from "./yaml-file";

/** A longer file is one that a program wrote: reading it at each key would hold the page up. */
const MOST_CHARACTERS = 600_000;
const ROOT_KEYS = ["version", "name", "priority", "defaults", "tasks"] as const;
const NEEDS = ["success", "failure", "any"] as const;

export type Read =
  /** `notes`: what the form leaves in the file without showing it. */
  | { readonly form: JobForm; readonly notes: readonly string[] }
  /** Why there is no form for it, as a sentence. */
  | { readonly form: null; readonly why: string; readonly line: number | null };

let last: { readonly text: string; readonly read: Read } | null = null;

/** The form of a file, or why it can't have one. Nothing is changed. The same file is mostly asked for again and again. */
export function readForm(text: string): Read {
  if (last?.text !== text) last = { text, read: readAnew(text) };
  return last.read;
}

function readAnew(text: string): Read {
  try {
    const reading = new Reading(fileOf(text));
    return { form: reading.job(), notes: reading.notes() };
  } catch (error) {
    if (error instanceof CantShow) return { form: null, why: error.message, line: error.line };
    if (error instanceof RangeError) return { form: null, why: "The file is nested too deep.", line: null };
    throw error;
  }
}

function fileOf(text: string): YamlFile {
  if (text.length > MOST_CHARACTERS) {
    throw new CantShow(`The file has ${text.length.toLocaleString("en")} characters; the form shows files of up to ${MOST_CHARACTERS.toLocaleString("en")}.`);
  }
  return new YamlFile(text);
}

/** A name in a sentence: short, and nothing in it that would turn or break the line. */
function shown(name: string): string {
  const cut = name.length > 60 ? `${name.slice(0, 57)}...` : name;
  return `'${cut.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "\ufffd")}'`;
}

interface Found {
  readonly pair: Pair;
  readonly value: unknown;
}

const isEmpty = (node: unknown): boolean => node === null || node === undefined || (isScalar(node) && valueOf(node) === "" && !isText(node));

const kindOf = (node: unknown): string => (isSeq(node) ? "a list" : isMap(node) ? "a mapping" : "a text");

class Reading {
  private readonly unknown: string[] = [];
  constructor(private readonly file: YamlFile) {}

  notes(): string[] {
    const notes: string[] = [];
    const more = this.unknown.length - 3;
    if (more > -3) {
      const named = this.unknown.slice(0, 3).join(", ");
      notes.push(`The form has no field for ${named}${more > 0 ? ` and ${more} more` : ""}. What stands there stays in the file.`);
    }
    let aliases = false;
    visit(this.file.doc, {
      Alias: () => {
        aliases = true;
        return visit.BREAK;
      },
    });
    if (aliases) {
      notes.push("The file uses anchors (&) and aliases (*). The form shows what they stand for. A value that you change here is written out at its place; all others stay as they are.");
    }
    return notes;
  }

  job(): JobForm {
    this.refuseWhatHidesMeaning();
    const root = this.file.doc.contents as unknown;
    if (!isEmpty(root) && !isMap(root)) throw new CantShow(`The file is ${kindOf(root)}; a job file starts with name: and tasks:.`, this.file.lineOf(root));
    const found = this.keys(isMap(root) ? root : null, "the file");
    for (const key of found.keys()) if (!(ROOT_KEYS as readonly string[]).includes(key)) this.unknown.push(shown(key));
    const version = found.get("version")?.value;
    if (version !== undefined && !(isScalar(version) && valueOf(version) === "1")) {
      const said = isScalar(version) ? valueOf(version) : kindOf(version);
      throw new CantShow(`The file is of version ${shown(said)}; the form knows version 1.`, this.file.lineOf(version));
    }
    const listed = found.get("tasks")?.value;
    if (!isEmpty(listed) && !isSeq(listed)) throw new CantShow(`tasks is ${kindOf(listed)}, not a list.`, this.file.lineOf(listed));
    const items = isSeq(listed) ? listed.items : [];
    if (items.length > MOST_TASKS) throw new CantShow(`The file has ${items.length.toLocaleString("en")} tasks; the form shows up to ${MOST_TASKS}.`);
    const marks = { loose: [] as string[], fixed: [] as { field: string; why: string }[] };
    const name = this.text(found.get("name"), "name", marks);
    const priority = this.text(found.get("priority"), "priority", marks);
    const shared = found.get("defaults")?.value;
    if (!isEmpty(shared) && !isMap(shared)) throw new CantShow(`defaults is ${kindOf(shared)}, not a mapping.`, this.file.lineOf(shared));
    const first = firstSaid(found.get("tasks")?.pair).ofFirst !== "";
    return bound({
      name,
      priority,
      ...marks,
      defaults: isMap(shared) ? this.task(shared, "defaults", "defaults") : null,
      tasks: items.map((item, index) => {
        const task = this.file.resolved(item);
        if (!isMap(task)) throw new CantShow(`Task ${index + 1} is ${kindOf(task)}, not a mapping with a name.`, this.file.lineOf(item));
        const comments = commentsOf(task).length > 0 || (index === 0 && first);
        return { ...this.task(task, `task ${index + 1}`, `file-${index}`), at: index, ...(comments ? { comments: true as const } : {}) };
      }),
    });
  }

  /** Tags, merges and keys that are no words: the server takes none of them, and a form could only guess. */
  private refuseWhatHidesMeaning(): void {
    visit(this.file.doc, {
      Node: (_, node) => {
        const tag = (node as { tag?: string }).tag;
        if (tag !== undefined) throw new CantShow(`The file has a tag, ${shown(tag.replace("tag:yaml.org,2002:", "!!"))}, which a form has no place for.`, this.file.lineOf(node));
      },
      Pair: (_, pair) => {
        if (!isScalar(pair.key)) throw new CantShow("A key of the file is no plain word.", this.file.lineOf(pair.key));
        if (keyOf(pair) === "<<" && pair.key.type === "PLAIN") {
          throw new CantShow("The file has a merge key (<<), which job files don't know; put what the tasks share under defaults.", this.file.lineOf(pair.key));
        }
      },
    });
  }

  private keys(map: YAMLMap | null, where: string): Map<string, Found> {
    const found = new Map<string, Found>();
    for (const pair of map?.items ?? []) {
      const key = keyOf(pair);
      if (found.has(key)) throw new CantShow(`The key ${shown(key)} is written twice in ${where}; keep one of the two.`, this.file.lineOf(pair.key));
      found.set(key, { pair, value: this.file.resolved(pair.value) });
    }
    return found;
  }

  private task(map: YAMLMap, where: string, key: string): TaskForm {
    const found = this.keys(map, where);
    const loose: string[] = [];
    const fixed: { field: string; why: string }[] = [];
    const marks = { loose, fixed };
    const isDefaults = key === "defaults";
    for (const name of found.keys()) {
      if (!(TASK_KEYS as readonly string[]).includes(name) || (isDefaults && (name === "name" || name === "needs"))) this.unknown.push(`${shown(name)} (${where})`);
    }
    const resources = found.get("resources")?.value;
    const known = INPUTS.map((input: TaskInput) => input.under).filter(Boolean);
    const parts = isMap(resources) ? this.keys(resources, `resources of ${where}`) : new Map<string, Found>();
    for (const name of parts.keys()) if (!INPUTS.some((input) => input.under && input.key === name)) this.unknown.push(`${shown(name)} (resources of ${where})`);
    if (!isEmpty(resources) && !isMap(resources)) {
      for (const input of INPUTS) if (known.includes(input.under)) fixed.push({ field: fieldOf(input), why: `resources is ${kindOf(resources)} in the file` });
    }
    const texts = INPUTS.map((input: TaskInput) => {
      const one = (input.under ? parts : found).get(input.key);
      return [input.key, input.kind === "list" ? this.listed(one, fieldOf(input), marks) : this.text(one, fieldOf(input), marks, input.kind === "number")];
    });
    return {
      ...blankTask(key),
      ...(Object.fromEntries(texts) as Partial<TaskForm>),
      name: isDefaults ? "" : this.text(found.get("name"), "name", marks),
      image: this.text(found.get("image"), "image", marks),
      ...this.command(found.get("command"), marks),
      env: this.pairs(found.get("env"), "env", fixed),
      ulimits: this.pairs(found.get("ulimits"), "ulimits", fixed),
      needs: isDefaults ? [] : this.needs(found.get("needs"), marks),
      datasets: this.listOfNames(found.get("datasets"), "datasets", marks),
      secrets: this.listOfNames(found.get("secrets"), "secrets", marks),
      loose,
      fixed,
    };
  }

  private text(found: Found | undefined, field: string, marks: Marks, number = false): string {
    if (found === undefined) return "";
    if (isEmpty(found.value)) {
      marks.loose.push(field);
      return "";
    }
    if (!isScalar(found.value)) {
      marks.fixed.push({ field, why: `it is ${kindOf(found.value)} in the file` });
      return "";
    }
    const text = valueOf(found.value);
    if (/[\r\n]/.test(text)) marks.fixed.push({ field, why: "it has more than one line" });
    if (isText(found.value) === number) marks.loose.push(field);
    return text;
  }

  private listed(found: Found | undefined, field: string, marks: Marks): string {
    if (!isSeq(found?.value)) return this.text(found, field, marks);
    const items = found.value.items.map((item) => this.file.resolved(item));
    const texts = items.map((item) => (isScalar(item) ? valueOf(item) : ","));
    if (texts.some((text) => text.includes(",") || text.trim() !== text || text === "")) {
      marks.fixed.push({ field, why: "the file has a list there that a line can't show" });
      return "";
    }
    if (items.some((item) => isScalar(item) && !isText(item))) marks.loose.push(field);
    return texts.join(", ");
  }

  private command(found: Found | undefined, marks: Marks): Pick<TaskForm, "mode" | "command"> {
    const value = found?.value;
    if (isSeq(value)) {
      const items = value.items.map((item) => this.file.resolved(item));
      const words = items.map((item) => (isScalar(item) ? valueOf(item) : ""));
      if (words.length === 0 || words.some((word) => word === "" || /[\r\n]/.test(word))) {
        marks.fixed.push({ field: "command", why: "a word of it is empty or has a line break" });
      } else if (items.some((item) => isScalar(item) && !isText(item))) marks.loose.push("command");
      return { mode: "argv", command: words.join("\n") };
    }
    if (isScalar(value) && !isEmpty(value)) {
      if (valueOf(value).includes("\r")) marks.fixed.push({ field: "command", why: "it has line breaks of another system" });
      if (!isText(value)) marks.loose.push("command");
      return { mode: "script", command: valueOf(value) };
    }
    return { mode: "script", command: this.text(found, "command", marks) };
  }

  private pairs(found: Found | undefined, field: "env" | "ulimits", fixed: Marks["fixed"]): PairRow[] {
    const value = found?.value;
    if (isEmpty(value)) return [];
    if (!isMap(value)) {
      fixed.push({ field, why: `it is ${kindOf(value)} in the file` });
      return [];
    }
    return value.items.map((pair, at) => {
      const one = this.file.resolved(pair.value);
      const name = keyOf(pair);
      if (/[\r\n]/.test(name)) return { at, name, value: "", fixed: "its name has a line break" };
      if (isScalar(one) || isEmpty(one)) {
        const text = isScalar(one) ? valueOf(one) : "";
        const loose = field === "env" && !(isScalar(one) && isText(one)) ? { loose: true as const } : {};
        return { at, name, value: text, ...loose, ...(text.includes("\r") ? { fixed: "it has line breaks of another system" } : {}) };
      }
      const limits = field === "ulimits" && isMap(one) ? this.bothLimits(one) : null;
      return limits === null ? { at, name, value: "", fixed: `it is ${kindOf(one)} in the file` } : { at, name, value: limits };
    });
  }

  /** `soft:hard`, as Docker writes it. */
  private bothLimits(map: YAMLMap): string | null {
    const parts = this.keys(map, "ulimits");
    const [soft, hard] = [parts.get("soft")?.value, parts.get("hard")?.value];
    if (parts.size !== 2 || !isScalar(soft) || !isScalar(hard)) return null;
    const both = [valueOf(soft), valueOf(hard)];
    return both.some((part) => part === "" || /[:\r\n]/.test(part)) ? null : both.join(":");
  }

  private needs(found: Found | undefined, marks: Marks): NeedRow[] {
    const value = found?.value;
    if (isEmpty(value)) return [];
    if (isSeq(value)) {
      const items = value.items.map((item) => this.file.resolved(item));
      if (items.every((item) => isScalar(item))) {
        if (items.some((item) => isScalar(item) && !isText(item))) marks.loose.push("needs");
        return items.map((item, at) => ({ at, task: isScalar(item) ? valueOf(item) : "", on: "success" }));
      }
    } else if (isMap(value)) {
      const rows = value.items.map((pair, at) => {
        const on = this.file.resolved(pair.value);
        return { at, task: keyOf(pair), on: NEEDS.find((word) => isScalar(on) && valueOf(on) === word) };
      });
      const good = rows.filter((row): row is typeof row & { on: NeedRow["on"] } => row.on !== undefined);
      if (good.length === rows.length) return good;
    }
    marks.fixed.push({ field: "needs", why: "the file has something else there than names with success, failure or any" });
    return [];
  }

  private listOfNames(found: Found | undefined, field: "datasets" | "secrets", marks: Marks): string[] {
    const value = found?.value;
    if (isEmpty(value)) return [];
    const items = isSeq(value) ? value.items.map((item) => this.file.resolved(item)) : [value];
    if (!isSeq(value) || !items.every((item) => isScalar(item))) {
      marks.fixed.push({ field, why: "the file has something else there than a list of names" });
      return [];
    }
    if (items.some((item) => isScalar(item) && !isText(item))) marks.loose.push(field);
    return items.map((item) => (isScalar(item) ? valueOf(item) : ""));
  }
}

interface Marks {
  readonly loose: string[];
  readonly fixed: { field: string; why: string }[];
}

