/** An image or a dataset that was looked at and shall go into the next job. It waits until the form is opened. */

export interface Taken {
  readonly image?: string;
  readonly dataset?: string;
}

const slot = (user: string): string => `headway.take.${user}`;

export function takeIntoDraft(user: string, what: Taken): void {
  try {
    sessionStorage.setItem(slot(user), JSON.stringify(what));
  } catch {
    // Storage is full or forbidden: the form opens without it.
  }
}

/** It stays until it is forgotten: a page that is drawn twice must see it twice. */
export function taken(user: string): Taken {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(slot(user)) ?? "{}");
    const text = (key: string): string | undefined => {
      const value = Object(found)[key] as unknown;
      return typeof value === "string" && value !== "" ? value : undefined;
    };
    const [image, dataset] = [text("image"), text("dataset")];
    return { ...(image === undefined ? {} : { image }), ...(dataset === undefined ? {} : { dataset }) };
  } catch {
    return {};
  }
}

export function forgetTaken(user: string): void {
  try {
    sessionStorage.removeItem(slot(user));
  } catch {
    // as above
  }
}
