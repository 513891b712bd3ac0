/** The order of rows by a column. In an address: sort=name, or sort=-name from the end. */
export interface Sort<C extends string = string> {
  readonly by: C;
  readonly down: boolean;
}

export function sortIn<C extends string>(given: string | null, columns: readonly C[]): Sort<C> | null {
  const down = given?.startsWith("-") ?? false;
  const by = columns.find((column) => column === (down ? given?.slice(1) : given));
  return by === undefined ? null : { by, down };
}

export const sortText = (sort: Sort | null): string | null => (sort === null ? null : `${sort.down ? "-" : ""}${sort.by}`);

/** After a press on a column: it, then the other way round, then as the list comes. `down`: its largest come first. */
export function pressed(sort: Sort | null, by: string, down: boolean): Sort | null {
  if (sort?.by !== by) return { by, down };
  return sort.down === down ? { by, down: !down } : null;
}

type Value = string | number | null | undefined;

/** What a row has no value for stands last, whichever way round. */
export function sorted<T, C extends string>(rows: readonly T[], sort: Sort<C> | null, values: { readonly [column in C]?: (row: T) => Value }): readonly T[] {
  const value = sort === null ? undefined : values[sort.by];
  if (sort === null || value === undefined) return rows;
  const none = (one: Value): boolean => one === null || one === undefined || one === "";
  return rows.toSorted((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (none(x) || none(y)) return Number(none(x)) - Number(none(y));
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return sort.down ? -order : order;
  });
}
