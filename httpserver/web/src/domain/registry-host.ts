/** Hosts of registries, as people type or paste them. */

/** "https://ghcr.io/" is "ghcr.io". */
export const hostOf = (typed: string): string => typed.trim().replace(/^https?:\/\//i, "").replace(/\/+$/, "");

/** What is wrong with it, as a sentence; "" if the page sees nothing wrong. */
export function badHost(host: string): string {
  if (host === "") return "Give the registry, such as ghcr.io.";
  if (host.includes("/")) return `Give the host alone: ${host.split("/")[0] ?? ""}, without the slash and what follows it.`;
  return /\s/.test(host) ? "The host of a registry has no spaces." : "";
}
