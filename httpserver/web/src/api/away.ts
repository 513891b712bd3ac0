/** What the hub says of the server, for whoever listens. */

const listeners = new Set<(since: number | null) => void>();

/** Since when the server does not answer, in ms, whenever that changes; null: it answers. */
export const onAway = (listener: (since: number | null) => void): unknown => listeners.add(listener);

export const tellAway = (since: number | null): void => listeners.forEach((listener) => listener(since));
