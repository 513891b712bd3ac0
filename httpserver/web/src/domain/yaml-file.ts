/** A YAML file that can be changed in place: what nobody touches is printed as it was typed. */
import { type Alias, type Document, LineCounter, type Node, Pair, Scalar, YAMLMap, YAMLSeq, isAlias, isMap, isScalar, isSeq, parseDocument, visit } from "yaml";
import { type StringifyContext, mapTag, seqTag, stringifyString } from "yaml/util";

import { keptLines } from "./kept-lines";

/** What a form can't show, as a sentence. */
export class CantShow extends Error {
  readonly line: number | null;
  constructor(sentence: string, line: number | null = null) {
    super(sentence);
    this.line = line;
  }
}

/** What may not stand in a file as such, for the server: it is written as an escape. */
const ESCAPED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Safe without quotes wherever it stands: no sign of YAML, and never a number, date or truth value to anyone. */
const SAFE = /^(?:[\p{L}\p{N}](?:[\p{L}\p{N}_./+=@%~-]|:(?=[\p{L}\p{N}_/])| (?=[\p{L}\p{N}_./+=@%~-]))*|\/[\p{L}\p{N}_./+=@%~-]*)$/u;
const SPECIAL = /^(?:y|n|yes|no|on|off|true|false|null|[0-9][0-9_.:xobe+-]*(?:[t ].*)?|0x[0-9a-f_]+|[0-9._]+e[-+]?[0-9]+)$/i;
/** What may stand where a number belongs without quotes, right or wrong: the server judges it. */
const NUMBER_LIKE = /^[-+.]?[\p{L}\p{N}][\p{L}\p{N}_.+-]*$/u;

/** What a scalar without quotes is no text for, as the server reads it (headway/jobfile/source_yaml.py). */
const NO_TEXT = [
  /^(?:|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
  /^(?:[-+]?(?:0|[1-9][0-9]{0,40})|0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40})$/,
  /^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/,
  /^(?:yes|no|on|off|=|<<|[-+]?0[0-9_]+|[-+]?0b[01_]+|[-+]?0x[0-9a-f_]+|[-+]?0o[0-7_]+|[-+]?[0-9][0-9_]*)$/i,
  /^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$/,
  /^(?:[-+]?(?:[0-9][0-9_]*)?\.(?=.*[0-9])[0-9_]*(?:e[-+]?[0-9]+)?|[-+]?[0-9][0-9_]*e[-+]?[0-9]+)$/i,
  /^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:t|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}.*)?$/i,
];

const isPlain = (node: Scalar): boolean => node.type === undefined || node.type === "PLAIN";

export const valueOf = (node: Scalar): string => String(node.value ?? "");

/** Whether the server reads a text, not a number, a truth value or something that readers disagree on. */
export const isText = (node: Scalar): boolean => !isPlain(node) || !NO_TEXT.some((pattern) => pattern.test(valueOf(node)));

const escaped = (text: string): string => JSON.stringify(text).replace(ESCAPED, (bad) => `\\u${bad.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** What was typed for a scalar that nobody touched, if that is on one line. */
function typedOf(item: Scalar): string | null {
  const token = item.srcToken;
  return token !== undefined && "source" in token && token.type !== "block-scalar" && !token.source.includes("\n") ? token.source : null;
}

/** All scalars are texts here: what stands in the file is kept to the letter. */
const asTyped = {
  tag: "tag:yaml.org,2002:str",
  default: true,
  identify: (value: unknown) => typeof value === "string",
  resolve: (text: string) => text,
  stringify(item: Scalar, context: StringifyContext, onComment?: () => void, onChompKeep?: () => void): string {
    const typed = typedOf(item);
    if (typed !== null) return typed;
    const text = valueOf(item);
    if (text.search(ESCAPED) >= 0) return escaped(text);
    return stringifyString(item as Scalar<string>, context, onComment, onChompKeep);
  },
};

export type How = "text" | "number" | "quoted";

interface Style {
  /** Whether it is JSON on several lines, which stays JSON. */
  readonly json: boolean;
  readonly indent: number;
  readonly indentSeq: boolean;
  readonly flowCollectionPadding: boolean;
}

/** How the lines of a file are laid out, so that new ones look like those that are there. */
function styleOf(text: string): Style {
  const bracket = /^\s*[{[]\n([ \t]+)/.exec(text)?.[1];
  if (bracket !== undefined && isJson(text)) return { json: true, indent: Math.min(8, bracket.length), indentSeq: true, flowCollectionPadding: false };
  const dash = /^tasks:[^\n]*\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)-\s/m.exec(text)?.[1]?.length ?? 2;
  const nested = /^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( +)[^\s#-]/m.exec(text)?.[1]?.length;
  return { json: false, indent: Math.min(8, nested ?? (dash || 2)), indentSeq: dash > 0, flowCollectionPadding: /\{ \S/.test(text) };
}

export class YamlFile {
  readonly doc: Document.Parsed;
  private readonly lines = new LineCounter();
  private readonly json: boolean;

  /** Raises CantShow for what is no YAML. */
  constructor(readonly text: string) {
    this.json = /^\s*[{[]/.test(text);
    try {
      this.doc = parseDocument(text, {
        schema: "failsafe",
        customTags: () => [mapTag, seqTag, asTyped] as never,
        keepSourceTokens: true,
        uniqueKeys: false,
        lineCounter: this.lines,
      });
    } catch {
      throw new CantShow("The file is nested too deep.");
    }
    const [error] = this.doc.errors;
    if (error !== undefined) {
      const line = error.linePos?.[0].line ?? null;
      const said = (error.message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "").replace(/[.:]+$/, "");
      const many = error.code === "MULTIPLE_DOCS" ? "there is more than one document in it" : said;
      throw new CantShow(`The file can't be read as YAML${line === null ? "" : `: line ${line}`}: ${many}.`, line);
    }
  }

  lineOf(node: unknown): number | null {
    const range = (node as Node | null)?.range;
    return range ? this.lines.linePos(range[0]).line : null;
  }

  /** What an alias stands for. */
  resolved(node: unknown): unknown {
    if (!isAlias(node)) return node;
    const found = node.resolve(this.doc);
    if (found === undefined) throw new CantShow(`The alias *${node.source} names no anchor.`, this.lineOf(node));
    return found;
  }

  // -- changes ---------------------------------------------------------------------------------------

  /** What stands at a key, for a change: a copy where it was an alias; aliases of it become copies first. */
  owned(pair: Pair): unknown {
    const value = pair.value;
    if (isAlias(value)) pair.value = this.copyOf(value);
    else this.detach(value);
    return pair.value;
  }

  /** The same of an entry of a list. */
  ownedItem(list: YAMLSeq, index: number): unknown {
    const item = list.items[index];
    if (isAlias(item)) list.items[index] = this.copyOf(item);
    else this.detach(item);
    return list.items[index];
  }

  /** Aliases of a node become copies: it is about to change. */
  private detach(node: unknown): void {
    const anchor = (node as { anchor?: string } | null)?.anchor;
    if (anchor === undefined) return;
    let used = false;
    visit(this.doc, {
      Alias: (_, alias) => {
        if (alias.source !== anchor || alias.resolve(this.doc) !== node) return undefined;
        used = true;
        return this.copyOf(alias);
      },
    });
    if (used) delete (node as { anchor?: string }).anchor;
  }

  /** The same of all that is in a node: it is about to go. */
  leaving(node: unknown): void {
    if (node === null || typeof node !== "object") return;
    visit(node as Node, { Node: (_, inner) => this.detach(inner) });
  }

  private copyOf(alias: Alias): Node {
    const target = this.resolved(alias) as Node;
    const copy = target.clone() as Node;
    visit(copy, {
      Pair: (_, pair) => {
        delete pair.srcToken;
      },
      Node: (_, node) => {
        delete (node as { anchor?: string }).anchor;
        delete node.srcToken;
        delete node.comment;
        delete node.commentBefore;
      },
    });
    if (alias.comment) copy.comment = alias.comment;
    if (alias.commentBefore) copy.commentBefore = alias.commentBefore;
    return copy;
  }

  scalar(value: string, how: How = "text"): Scalar {
    const node = new Scalar(value);
    node.type = this.typeFor(value, how);
    return node;
  }

  /** Writes another value, in the quotes that are there. */
  write(node: Scalar, value: string, how: How = "text"): void {
    node.value = value;
    delete node.srcToken;
    node.type = this.typeFor(value, how, node.type);
  }

  private typeFor(value: string, how: How, before?: Scalar.Type): Scalar.Type {
    if (how === "number" && NUMBER_LIKE.test(value)) return "PLAIN";
    // A tab before the first word of a block would count as indentation for the server.
    if (value.search(ESCAPED) >= 0 || /^[\n ]*\t/.test(value)) return "QUOTE_DOUBLE";
    if (value.includes("\n")) return this.json ? "QUOTE_DOUBLE" : "BLOCK_LITERAL";
    if (before === "QUOTE_SINGLE" || before === "QUOTE_DOUBLE") return before;
    if (how === "quoted" || this.json || value.length > 500) return "QUOTE_DOUBLE";
    return SAFE.test(value) && !SPECIAL.test(value) ? "PLAIN" : "QUOTE_DOUBLE";
  }

  key(name: string): Scalar {
    return this.scalar(name);
  }

  flow<T extends YAMLMap | YAMLSeq>(node: T): T {
    node.flow = true;
    return node;
  }

  map(flow = false): YAMLMap {
    const made = new YAMLMap(this.doc.schema);
    if (flow || this.json) made.flow = true;
    return made;
  }

  list(values: readonly string[]): YAMLSeq {
    const made = new YAMLSeq(this.doc.schema);
    made.flow = true;
    made.items = values.map((value) => this.scalar(value));
    return made;
  }

  /** Puts a new key where the order wants it. */
  insert(map: YAMLMap, name: string, value: unknown, order: readonly string[]): void {
    const rank = order.indexOf(name);
    let place = 0;
    map.items.forEach((pair, index) => {
      const other = order.indexOf(keyOf(pair));
      if (other === -1 || other < rank) place = index + 1;
    });
    map.items.splice(place, 0, new Pair(this.key(name), value));
  }

  /** Takes a pair out; what was said about it goes to the next one. */
  remove(map: YAMLMap, pair: Pair): void {
    this.leaving(pair.value);
    const index = map.items.indexOf(pair);
    const said = [...commentsOf(pair.key), ...commentsOf(pair.value)].join("\n");
    map.items.splice(index, 1);
    if (said === "") return;
    const next = map.items[index]?.key as Node | undefined;
    if (next) next.commentBefore = joined(said, next.commentBefore);
    else map.comment = joined(said, map.comment);
  }

  /** Puts another node in the place of a value, with what was said about the old one. */
  replace(pair: Pair, value: Node): void {
    this.leaving(pair.value);
    const old = pair.value as Node | null;
    const inside = commentsOf(old).filter((said) => said !== old?.comment);
    const key = pair.key as Node | null;
    if (inside.length > 0 && key) key.commentBefore = joined(inside.join("\n"), key.commentBefore);
    if (old?.comment) value.comment = old.comment;
    pair.value = value;
  }

  /** The file as it is now, line by line as it was where nothing changed. */
  printed(): string {
    const crlf = this.text.includes("\r\n");
    const before = this.text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
    const style = styleOf(before);
    const meant = meaning(this.doc.contents);
    const plain = print(this.doc, style);
    const kept = keptLines(before, reprinted(before, style), plain);
    const text = [kept, plain].find((one) => says(one, meant)) ?? print(quotedAll(this.doc), style);
    return (this.text.startsWith("\ufeff") ? "\ufeff" : "") + (crlf ? text.replaceAll("\n", "\r\n") : text);
  }
}

const joined = (above: string, below: string | null | undefined): string => (below ? `${above}\n${below}` : above);

/** All comments in and at a node, in their order. */
export function commentsOf(node: unknown): string[] {
  const found: string[] = [];
  if (node === null || typeof node !== "object") return found;
  visit(node as Node, {
    Node: (_, { commentBefore, comment }) => {
      for (const one of [commentBefore, comment]) if (one) found.push(one);
    },
  });
  return found;
}

/**
 * What is said above the first entry of a list, which the parser takes for the list's own: the last lines of it without
 * a blank one below belong to the entry. What stands beside the key, and above a blank line, is of the list.
 */
export function firstSaid(pair: Pair | undefined): { readonly ofList: string; readonly ofFirst: string } {
  const list = pair?.value;
  const said = isSeq(list) && !list.flow ? (list.commentBefore ?? "") : "";
  if (said === "") return { ofList: "", ofFirst: "" };
  const lines = said.split("\n");
  const before = (pair?.srcToken as { sep?: readonly { type: string }[] } | undefined)?.sep ?? [];
  const beside = before.findIndex((token) => token.type === "comment");
  const isBeside = beside >= 0 && !before.slice(0, beside).some((token) => token.type === "newline");
  const from = Math.max(isBeside ? 1 : 0, lines.lastIndexOf("") + 1);
  return { ofList: lines.slice(0, from).join("\n"), ofFirst: lines.slice(from).join("\n") };
}

export const keyOf = (pair: Pair): string => (isScalar(pair.key) ? valueOf(pair.key) : "");

function print(doc: Document, { json, ...style }: Style): string {
  if (json) return `${jsonOf(doc.contents, style.indent, "\n")}\n`;
  return doc.toString({ ...style, lineWidth: 0, doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER });
}

let last: { readonly text: string; readonly printed: string } | null = null;

/** What the printer makes of a file that nobody changed: the same for each key that is typed into its form. */
function reprinted(text: string, style: Style): string {
  if (last?.text !== text) last = { text, printed: print(new YamlFile(text).doc, style) };
  return last.printed;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function jsonOf(node: unknown, indent: number, line: string): string {
  const deeper = line + " ".repeat(indent);
  const inside = (open: string, parts: readonly string[], close: string): string =>
    parts.length === 0 ? open + close : `${open}${deeper}${parts.join(`,${deeper}`)}${line}${close}`;
  if (isMap(node)) return inside("{", node.items.map((pair) => `${jsonOf(pair.key, indent, deeper)}: ${jsonOf(pair.value, indent, deeper)}`), "}");
  if (isSeq(node)) return inside("[", node.items.map((item) => jsonOf(item, indent, deeper)), "]");
  if (!isScalar(node)) return "null";
  return typedOf(node) ?? (isPlain(node) && isJson(valueOf(node)) ? valueOf(node) : escaped(valueOf(node)));
}

/** Texts of several lines between double quotes: the last way to write what a block can't hold. */
function quotedAll(doc: Document): Document {
  visit(doc, {
    Scalar: (_, node) => {
      if (!valueOf(node).includes("\n")) return;
      delete node.srcToken;
      node.type = "QUOTE_DOUBLE";
    },
  });
  return doc;
}

function says(text: string, meant: string): boolean {
  try {
    return meaning(new YamlFile(text).doc.contents) === meant;
  } catch {
    return false;
  }
}

/** What the server would read of a node, to be compared. Aliases are not followed: they may grow without end. */
function meaning(node: unknown): string {
  const anchor = (node as { anchor?: string } | null)?.anchor;
  const tag = (node as { tag?: string } | null)?.tag;
  const marks = `${anchor === undefined ? "" : `&${anchor} `}${tag === undefined ? "" : `${tag} `}`;
  if (isScalar(node)) return `${marks}${isText(node) ? "t" : "p"}${JSON.stringify(valueOf(node))}`;
  if (isAlias(node)) return `*${node.source}`;
  if (isSeq(node)) return `${marks}[${node.items.map(meaning).join(",")}]`;
  if (isMap(node)) return `${marks}{${node.items.map((pair) => `${meaning(pair.key)}:${meaning(pair.value)}`).join(",")}}`;
  return 'p""';
}
