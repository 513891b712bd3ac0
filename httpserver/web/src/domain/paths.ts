/** Paths in a personal space, percent-encoded component by component: "my%20data/caf%C3%A9". The root is "". */

export const join = (folder: string, component: string): string => (folder === "" ? component : `${folder}/${component}`);

/** A relative path of plain text, as an upload brings it. */
export const encodePath = (path: string): string => path.split("/").filter(Boolean).map(encodeURIComponent).join("/");

/** As text; bytes that are no UTF-8 are spelled out as \xNN, as the server does. */
export function decode(component: string): string {
  return component.replace(/(%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run);
    } catch {
      return run.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => {
        const byte = Number.parseInt(hex, 16);
        return byte < 0x80 ? String.fromCharCode(byte) : `\\x${hex.toLowerCase()}`;
      });
    }
  });
}

/** Whether every byte of it is text: other names can be opened and deleted, but not typed. */
export function isText(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

export const decodePath = (path: string): string => path.split("/").map(decode).join("/");

export const parent = (path: string): string => path.split("/").slice(0, -1).join("/");

/** The folders on the way, each with its own path. */
export function crumbs(path: string): { readonly name: string; readonly path: string }[] {
  const parts = path.split("/").filter(Boolean);
  return parts.map((part, i) => ({ name: decode(part), path: parts.slice(0, i + 1).join("/") }));
}

// Joiners stay inside words and emoji of scripts that need them; beside ASCII, or at an end, they only hide.
const HIDES =
  /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]|(?<![^\p{ASCII}])[\u200c\u200d]|[\u200c\u200d](?![^\p{ASCII}])/gu;

/** Line breaks, control and direction marks would make one name look like another: shown as what they are. */
export function visible(name: string): string {
  return name.replace(HIDES, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
}

/** What is wrong with a new name, as a sentence; "" if nothing is. */
export function badName(name: string): string {
  if (name === "") return "Give a name.";
  if (name === "." || name === "..") return `“${name}” can't be a name: it stands for a folder.`;
  if (name.includes("/")) return "A name can't hold a slash.";
  if (name.includes("\0")) return "A name can't hold a NUL character.";
  if (new TextEncoder().encode(name).length > 255) return "A name has at most 255 bytes.";
  return "";
}
