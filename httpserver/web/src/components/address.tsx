/** Filters and order that stand in the page's address: they outlive Back, a reload, and go along to a colleague. */
import { useCallback, useMemo } from "react";
import { navigate, useSearch } from "wouter/use-browser-location";

import { SEARCH_CHARACTERS, changed } from "../domain/address";
import { type Sort, pressed, sortText } from "../domain/sort";

export type Change = (changes: { readonly [name: string]: string | null }, how?: { readonly typed?: boolean }) => void;

/** What the address says, and how to change it. `typed`: Back goes to before the typing, not through its letters. */
export function useAddress(): [URLSearchParams, Change] {
  // Not wouter's own search: it decodes once more than the browser.
  const search = useSearch();
  const given = useMemo(() => new URLSearchParams(search), [search]);
  const change = useCallback<Change>((changes, { typed = false } = {}) => {
    const { pathname, search: now, hash } = window.location;
    const next = changed(now, changes);
    if (next === now) return;
    try {
      navigate(`${pathname}${next}${hash}`, { replace: typed });
    } catch {
      // A browser takes only so many changes in a while; the next one tells it.
    }
  }, []);
  return [given, change];
}

export function SearchField({ value, onText, placeholder, label = "Search" }: { value: string; onText: (text: string) => void; placeholder: string; label?: string }) {
  return (
    <input type="search" placeholder={placeholder} aria-label={label} maxLength={SEARCH_CHARACTERS} value={value} onChange={(e) => onText(e.target.value)} />
  );
}

/** The head of a column by which rows can be sorted. `off`: why they can't now. `down`: the largest come first. */
export function SortHead({
  by,
  sort,
  onSort,
  down = false,
  off = "",
  title = "",
  children,
}: {
  by: string;
  sort: Sort | null;
  onSort: (sort: string | null) => void;
  down?: boolean;
  off?: string;
  title?: string;
  children: React.ReactNode;
}) {
  const mine = sort?.by === by;
  return (
    <th aria-sort={!mine || off ? "none" : sort.down ? "descending" : "ascending"} title={off || title || undefined}>
      <button className="sort" disabled={off !== ""} onClick={() => onSort(sortText(pressed(sort, by, down)))}>
        {children}
        {mine && !off && <span aria-hidden="true">{sort.down ? " ▼" : " ▲"}</span>}
      </button>
    </th>
  );
}

export const ONLY_WHOLE = "Only a list that is shown whole can be sorted by this: narrow it by the filters, or press More.";
