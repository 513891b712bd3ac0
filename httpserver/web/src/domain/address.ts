/** What a page's address says of filters and order. What is not known there is as if it were not said. */

/** What a server takes as a search at most. */
export const SEARCH_CHARACTERS = 200;

export const wordIn = <T extends string>(given: string | null, allowed: readonly T[], otherwise: T): T =>
  allowed.find((word) => word === given) ?? otherwise;

export const textIn = (given: string | null): string => (given ?? "").slice(0, SEARCH_CHARACTERS);

/** A whole number from 0 to `most`. */
export function numberIn(given: string | null, most: number): number {
  return given !== null && /^\d{1,9}$/.test(given) ? Math.min(Number(given), most) : 0;
}

/** The search part of an address with changes; what becomes null is left out. */
export function changed(search: string, changes: { readonly [name: string]: string | null }): string {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  return query.size > 0 ? `?${query}` : "";
}
