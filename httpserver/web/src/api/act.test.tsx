import { act } from "react";
import { afterEach, expect, it, vi } from "vitest";

import { type Drawn, button, drawn, press, until } from "../testing";
import { useAct } from "./act";
import { ApiError } from "./client";

let page: Drawn;
afterEach(() => page.close());

it("the same is done once until what follows it is done too, then again", async () => {
  const ends: (() => void)[] = [];
  const run = vi.fn((wanted: string) => Promise.reject(new Error(`no ${wanted}`)));
  const after = vi.fn(() => new Promise<void>((done) => ends.push(done)));
  function Page() {
    const doing = useAct(run, { after, alone: false });
    return (
      <>
        {/* Never out of use: a press can come before what came first is drawn. */}
        <button onClick={() => doing.run("a")}>a</button>
        <button onClick={() => doing.run("b")}>b</button>
        <p>{["a", "b"].filter(doing.runs).join()}</p>
        <p>{doing.error?.message}</p>
      </>
    );
  }
  page = await drawn(<Page />);
  const [a, b] = [button("a"), button("b")];
  await act(async () => {
    a.click();
    a.click();
  });
  await press(a);
  await press(b);
  await until(() => expect(after).toHaveBeenCalledTimes(2));
  expect(run.mock.calls.map(([wanted]) => wanted)).toEqual(["a", "b"]);
  expect(document.querySelector("p")?.textContent).toBe("a,b");
  // A refusal is told at once, not behind what is asked for after it.
  expect(document.body.textContent).toContain("no b");
  await act(async () => ends.forEach((end) => end()));
  expect(document.querySelector("p")?.textContent).toBe("");
  expect(document.body.textContent).toContain("no b");
  await press(a);
  expect(run).toHaveBeenCalledTimes(3);
});

it("that nobody knows whether it was done lasts until the state says so; a refusal lasts", async () => {
  let error: Error = new ApiError("nobody knows", 0, "no-service");
  function Page({ over }: { over: boolean }) {
    const doing = useAct<string, unknown>(() => Promise.reject(error), { after: () => Promise.resolve(), state: () => over });
    return (
      <>
        <button onClick={() => doing.run("a")}>go</button>
        <p>{doing.error?.message}</p>
      </>
    );
  }
  page = await drawn(<Page over={false} />);
  await press(button("go"));
  await until(() => expect(document.body.textContent).toContain("nobody knows"));
  await page.draw(<Page over />);
  expect(document.body.textContent).not.toContain("nobody knows");
  error = new ApiError("It is over.", 409, "over");
  await press(button("go"));
  await until(() => expect(document.body.textContent).toContain("It is over."));
  await page.draw(<Page over={false} />);
  expect(document.body.textContent).toContain("It is over.");
});
