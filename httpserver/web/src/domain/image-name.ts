/** Names of images, as they are typed. */

const NAME = /^[a-z0-9]+([._-][a-z0-9]+)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

/** What is wrong with a name, as a sentence; "" if nothing is. */
export function badImageName(name: string): string {
  if (name === "") return "Give the image a name.";
  if (name.length > 64) return "A name has at most 64 characters.";
  return NAME.test(name) ? "" : "A name has lower-case letters and digits, with single . _ - between them.";
}

export function badTag(tag: string): string {
  return TAG.test(tag) ? "" : "A tag has up to 128 letters, digits, . _ -. It begins with a letter, a digit or _.";
}

/** A name for what comes in a file: "My Torch.tar.gz" is "my-torch". */
export function nameFrom(file: string): string {
  const stem = file.replace(/\.(tar|tgz|txz|tzst|gz|xz|zst|zstd|docker|oci)(?=\.|$)/gi, "");
  return stem
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 64)
    .replace(/-+$/, "");
}

/** "sha256:0123456789ab…": enough to tell two apart. */
export const short = (digest: string): string => digest.replace(/^(sha256:)?([0-9a-f]{12})[0-9a-f]{20,}$/, "$1$2…");
