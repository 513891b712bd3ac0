import { useState } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";

import { type Attempt, type AttemptState, api } from "../api/client";
import { type Drawn, button, drawn, enter, press } from "../testing";
import { Dialog } from "./dialog";
import { MoreTime } from "./more-time";

let page: Drawn;
afterEach(async () => {
  await page.close();
  vi.restoreAllMocks();
});

/** Asks, then once more, as the queue's dialog does. */
function Twice({ onDone }: { onDone: () => void }) {
  const [open, setOpen] = useState(false);
  const [sure, setSure] = useState(false);
  return (
    <>
      <button onClick={() => setOpen(true)}>Open</button>
      {open && (
        <Dialog
          title={sure ? "Really?" : "What?"}
          onClose={() => setOpen(false)}
          onSubmit={() => (sure ? onDone() : setSure(true))}
          actions={<button>{sure ? "Do it" : "Go on"}</button>}
        >
          {!sure && <input />}
        </Dialog>
      )}
    </>
  );
}

const field = (): HTMLInputElement => document.querySelector("dialog input") as HTMLInputElement;
const focused = (): string | undefined => document.activeElement?.textContent?.trim();

describe("a dialog", () => {
  it("that asks something else has the focus at its head when what was focused is gone", async () => {
    page = await drawn(<Twice onDone={() => undefined} />);
    await press(button("Open"));
    expect(document.activeElement).toBe(field());
    await enter(field());
    expect(focused()).toBe("Really?");
  });

  it("leaves the focus where it is while what has it stays", async () => {
    page = await drawn(<Twice onDone={() => undefined} />);
    await press(button("Open"));
    await press(button("Go on"));
    expect(focused()).toBe("Do it");
  });

  it("is not answered by the second click of a double click, which meets the next question", async () => {
    const done = vi.fn();
    page = await drawn(<Twice onDone={done} />);
    await press(button("Open"));
    await press(button("Go on"), 1);
    await press(button("Do it"), 2);
    expect(done).not.toHaveBeenCalled();
    await press(button("Do it"), 1);
    expect(done).toHaveBeenCalledOnce();
  });

  it("gives the focus back to what opened it", async () => {
    page = await drawn(<Twice onDone={() => undefined} />);
    await press(button("Open"));
    await press(button("Cancel"));
    expect(document.querySelector("dialog")).toBeNull();
    expect(focused()).toBe("Open");
  });
});

describe("more time", () => {
  const attempt = (state: AttemptState, ended_at: number | null = null): Attempt =>
    ({ number: 1, state, ended_at, timeout_s: 60, deadline_at: 1_000_060 }) as Attempt;
  const asking = (of: Attempt) => <MoreTime job="j" task="t" attempt={of} admin={false} now={1_000_000} onClose={() => undefined} />;

  it.each([
    ["TIMED_OUT", 1_000_060, "The task has ended in the meantime"],
    ["SUCCEEDED", 1_000_050, "succeeded"],
    ["STOPPING", null, "The task is being stopped"],
  ] as const)("of an attempt that is %s by now is not offered", async (state, ended_at, want) => {
    page = await drawn(asking(attempt("RUNNING")));
    expect(button("Give it")).toBeTruthy();
    await page.draw(asking(attempt(state, ended_at)));
    expect(document.querySelector("dialog")?.textContent).toContain(want);
    expect(document.querySelector("dialog")?.textContent).not.toContain("is stopped at");
    expect([...document.querySelectorAll("dialog button")].map((one) => one.textContent)).toEqual(["Close"]);
    expect(focused()).toBe("More time for t");
  });

  it("is asked for once, however quickly it is pressed again", async () => {
    const post = vi.spyOn(api, "POST").mockReturnValue(new Promise(() => undefined) as never);
    page = await drawn(asking(attempt("RUNNING")));
    const give = button("Give it");
    await press(give, 1);
    await press(give, 2);
    await enter(field());
    expect(post).toHaveBeenCalledOnce();
  });
});
