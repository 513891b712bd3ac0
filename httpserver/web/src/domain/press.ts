/** Presses that count. */

/** Not the second click of a double click: it would meet the button that stands there by then. Keys count always. */
export const firstPress = (event: { readonly detail: number }): boolean => event.detail <= 1;
