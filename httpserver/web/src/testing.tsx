/** For tests alone: components in a page of their own. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { type ReactNode, act } from "react";
import { createRoot } from "react-dom/client";
import { vi } from "vitest";

/** Whether what changes on the page does so by acts of the test alone. */
const inAct = (on: boolean): unknown => Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: on });
inAct(true);

// jsdom knows the element, not what it does: what can be focused first is.
HTMLDialogElement.prototype.showModal ??= function showModal(this: HTMLDialogElement): void {
  this.open = true;
  this.querySelector<HTMLElement>("input, button")?.focus();
};

/** What a browser does at Escape: the dialog is told first, and stays open if it prevents that; a second time it is not asked. */
export const escape = (insists = false): Promise<void> =>
  act(async () => {
    const dialog = document.querySelector("dialog");
    if (dialog === null || !dialog.open) return;
    if (!dialog.dispatchEvent(new Event("cancel", { cancelable: true })) && !insists) return;
    dialog.open = false;
    dialog.dispatchEvent(new Event("close"));
  });

export interface Drawn {
  readonly client: QueryClient;
  readonly draw: (children: ReactNode) => Promise<void>;
  readonly close: () => Promise<void>;
}

export async function drawn(children: ReactNode): Promise<Drawn> {
  const box = document.body.appendChild(document.createElement("div"));
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const root = createRoot(box);
  const draw = (content: ReactNode): Promise<void> =>
    act(async () => root.render(<QueryClientProvider client={client}>{content}</QueryClientProvider>));
  await draw(children);
  const close = async (): Promise<void> => {
    await act(async () => root.unmount());
    client.clear();
    box.remove();
    // Filters stand in the address: the next test begins without.
    window.history.replaceState(null, "", "/");
  };
  return { client, draw, close };
}

const labels = (): string[] => [...document.querySelectorAll("button")].map((one) => one.textContent?.trim() ?? "");

/** The button with this on it. */
export function button(label: string): HTMLButtonElement {
  const found = [...document.querySelectorAll("button")].find((one) => one.textContent?.trim() === label);
  if (found === undefined) throw new Error(`there is no button ${label}, only ${labels().join(", ")}`);
  return found;
}

/** A press by hand, the n-th in a row; a button out of use does nothing. */
export const press = (element: HTMLElement, nth = 1): Promise<void> =>
  act(async () => {
    element.focus();
    if (!element.matches(":disabled")) element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, detail: nth }));
  });

/** Enter in a field of a form. */
export const enter = (field: HTMLElement): Promise<void> => act(async () => field.closest("form")?.requestSubmit());

/** Waits for what comes of answers. */
export async function until(check: () => void): Promise<void> {
  inAct(false);
  try {
    await vi.waitFor(check, { timeout: 20_000, interval: 10 });
  } finally {
    inAct(true);
  }
}
