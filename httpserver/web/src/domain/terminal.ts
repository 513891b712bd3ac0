/**
 * One line of a log as a terminal would show it: carriage returns overwrite, colours become runs of text.
 *
 * Nothing of a line is ever markup: runs are drawn as text, with colours that are made here.
 */
export interface Style {
  /** "#rrggbb"; empty: the log's own. */
  readonly fg: string;
  readonly bg: string;
  readonly bold: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly inverse: boolean;
}

export interface Run {
  readonly text: string;
  readonly style: Style;
}

export interface Settled {
  readonly text: string;
  /** Null: all of it in the log's own colours. */
  readonly runs: readonly Run[] | null;
  /** What the next line begins with. */
  readonly style: Style;
}

export const PLAIN: Style = { fg: "", bg: "", bold: false, italic: false, underline: false, inverse: false };

/** Of the log in both themes. */
export const GROUND = "#101415";
export const INK = "#dfe6e3";

const NAMED = [
  "#8a9490", "#ff8a80", "#7fd99a", "#f0c060", "#7db8ff", "#e39bff", "#5cd3d3", "#dfe6e3",
  "#a6b0ac", "#ffb4ab", "#a5ecb8", "#ffe08a", "#a9d0ff", "#f0c2ff", "#9bebeb", "#ffffff",
];

// Sequences of terminals, returns, and what lies between. A broken sequence is dropped as far as it goes.
const PIECES = /\u001b\[([0-?]*)[ -/]*([@-~]?)|\u001b[\]P^_X][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]?|\r|[^\u001b\r]+/g;
// Also what ends a line for a browser alone, and what turns the reading order of its neighbours round.
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
/** No cursor goes further: one sequence must not make a line of megabytes. */
const WIDEST = 2_000;

export const visible = (text: string): string => text.replace(CONTROLS, "\ufffd");

const hex = (value: number): string => Math.max(0, Math.min(255, Math.trunc(value) || 0)).toString(16).padStart(2, "0");

/** A colour of the 256. */
function indexed(index: number): string {
  if (index < 16) return NAMED[index] ?? "";
  if (index < 232) {
    const step = (at: number): number => (at === 0 ? 0 : 55 + 40 * at);
    const cube = index - 16;
    return `#${hex(step(Math.floor(cube / 36)))}${hex(step(Math.floor(cube / 6) % 6))}${hex(step(cube % 6))}`;
  }
  return index < 256 ? `#${hex(8 + 10 * (index - 232)).repeat(3)}` : "";
}

/** The style after a sequence of "select graphic rendition". */
export function styled(old: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  let now: { -readonly [key in keyof Style]: Style[key] } = { ...old };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) now = { ...PLAIN };
    else if (code === 1) now.bold = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 7) now.inverse = true;
    else if (code === 22) now.bold = false;
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 27) now.inverse = false;
    else if (code === 39) now.fg = "";
    else if (code === 49) now.bg = "";
    else if (code >= 30 && code <= 37) now.fg = indexed(code - 30);
    else if (code >= 90 && code <= 97) now.fg = indexed(code - 82);
    else if (code >= 40 && code <= 47) now.bg = indexed(code - 40);
    else if (code >= 100 && code <= 107) now.bg = indexed(code - 92);
    else if (code === 38 || code === 48) {
      let colour = "";
      if (codes[i + 1] === 5) {
        colour = indexed(codes[i + 2] ?? 0);
        i += 2;
      } else if (codes[i + 1] === 2) {
        colour = `#${[2, 3, 4].map((at) => hex(codes[i + at] ?? 0)).join("")}`;
        i += 4;
      }
      if (code === 38) now.fg = colour;
      else now.bg = colour;
    }
  }
  return same(now, PLAIN) ? PLAIN : now;
}

const same = (a: Style, b: Style): boolean =>
  a === b ||
  (a.fg === b.fg && a.bg === b.bg && a.bold === b.bold && a.italic === b.italic && a.underline === b.underline && a.inverse === b.inverse);

/** `style`: what the line before it ended with. */
export function settled(raw: string, style: Style = PLAIN): Settled {
  if (!raw.includes("\u001b")) {
    let shown = raw;
    if (raw.includes("\r")) {
      shown = "";
      for (const part of raw.split("\r")) {
        if (part !== "") shown = part.length >= shown.length ? part : part + shown.slice(part.length);
      }
    }
    const text = visible(shown);
    return { text, runs: style === PLAIN || text === "" ? null : [{ text, style }], style };
  }
  const chars: string[] = [];
  const styles: Style[] = [];
  let column = 0;
  let now = style;
  for (const [piece, parameters, final] of raw.matchAll(PIECES)) {
    if (piece === "\r") column = 0;
    else if (piece.startsWith("\u001b")) {
      const count = Math.min(WIDEST, Number.parseInt(parameters ?? "", 10) || 0);
      if (final === "m" && /^[\d;:]*$/.test(parameters ?? "")) now = styled(now, parameters ?? "");
      else if (final === "K" && count === 0) {
        chars.length = Math.min(chars.length, column);
        styles.length = chars.length;
      } else if (final === "K") {
        const end = count === 1 ? Math.min(column + 1, chars.length) : chars.length;
        for (let at = 0; at < end; at++) {
          chars[at] = " ";
          styles[at] = PLAIN;
        }
      } else if (final === "G") column = Math.max(0, count - 1);
      else if (final === "C") column = Math.min(Math.max(column, WIDEST), column + Math.max(1, count));
      else if (final === "D") column = Math.max(0, column - Math.max(1, count));
    } else {
      while (chars.length < column) {
        chars.push(" ");
        styles.push(PLAIN);
      }
      for (let i = 0; i < piece.length; i++) {
        chars[column] = piece[i] ?? "";
        styles[column] = now;
        column += 1;
      }
    }
  }
  const text = visible(chars.join(""));
  const runs: Run[] = [];
  for (let at = 0; at < chars.length;) {
    const first = styles[at] ?? PLAIN;
    let end = at + 1;
    while (end < chars.length && same(styles[end] ?? PLAIN, first)) end += 1;
    runs.push({ text: text.slice(at, end), style: first });
    at = end;
  }
  return { text, runs: runs.every((run) => run.style === PLAIN) ? null : runs, style: now };
}

const light = (colour: string): number => {
  const part = (at: number): number => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
};

/** How well one colour is read on the other, from 1 to 21. */
export function contrast(a: string, b: string): number {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const mixed = (colour: string, other: string, share: number): string =>
  `#${[1, 3, 5].map((at) => hex(Math.round(Number.parseInt(colour.slice(at, at + 2), 16) * (1 - share) + Number.parseInt(other.slice(at, at + 2), 16) * share))).join("")}`;

/** Colours as they are drawn: what can't be read on its ground gets lighter or darker until it can. */
export function colours(style: Style): { readonly color: string; readonly background: string } {
  const [ink, ground] = style.inverse ? [style.bg || GROUND, style.fg || INK] : [style.fg || INK, style.bg || GROUND];
  const towards = contrast("#ffffff", ground) >= contrast("#000000", ground) ? "#ffffff" : "#000000";
  for (let share = 0; share < 1; share += 0.2) {
    const tried = mixed(ink, towards, share);
    if (contrast(tried, ground) >= 4.5) return { color: tried, background: ground };
  }
  return { color: towards, background: ground };
}
