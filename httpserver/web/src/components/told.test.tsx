import { afterEach, describe, expect, it, vi } from "vitest";

import { api } from "../api/client";
import { learnNames } from "../api/names";
import { type Drawn, drawn, until } from "../testing";
import { Told } from "./told";

const ALICE = "j1m8hhy4stv74qjyy";
const OTHER = "j1m8hhy3r89x275ak";

let page: Drawn;
afterEach(async () => {
  await page.close();
  vi.restoreAllMocks();
});

const links = (): [string | null, string, string | null][] =>
  [...document.querySelectorAll("a")].map((a) => [a.textContent, a.title, a.getAttribute("href")]);

const lookUps = (jobs: readonly { id: string; name: string }[]) =>
  vi.spyOn(api, "GET").mockResolvedValue({ data: { jobs } } as never);

describe("tasks in sentences", () => {
  it("stand by the names that lists have shown, and nobody is asked", async () => {
    const get = lookUps([]);
    page = await drawn(null);
    learnNames(page.client, [[ALICE, "<b>alice</b> day"]]);
    await page.draw(<Told text={`${ALICE}/t, behind it, keeps the start.`} />);
    expect(document.body.textContent).toBe("<b>alice</b> day / t, behind it, keeps the start.");
    expect(links()).toEqual([["<b>alice</b> day / t", `<b>alice</b> day / t (${ALICE}/t)`, `/jobs/${ALICE}/t`]]);
    expect(document.querySelector("b")).toBeNull();
    expect(get).not.toHaveBeenCalled();
  });

  it("are looked up once, and one job that has the id of another in its name is not taken for it", async () => {
    const get = lookUps([
      { id: OTHER, name: `not ${ALICE}` },
      { id: ALICE, name: "alice day" },
    ]);
    page = await drawn(<Told text={`${ALICE}/a and ${ALICE}/b`} />);
    await until(() => expect(document.body.textContent).toBe("alice day / a and alice day / b"));
    expect(get).toHaveBeenCalledOnce();
  });

  it("keep their ids where no name is known", async () => {
    lookUps([]);
    page = await drawn(<Told text={`Behind ${ALICE}/t.`} />);
    await until(() => expect(page.client.isFetching()).toBe(0));
    expect(links()).toEqual([[`${ALICE}/t`, `${ALICE}/t`, `/jobs/${ALICE}/t`]]);
  });

  it("can't hide in signs of direction or fill the page", async () => {
    lookUps([]);
    page = await drawn(null);
    learnNames(page.client, [[ALICE, `a\u202eb${"x".repeat(80)}`]]);
    await page.draw(<Told text={`${ALICE}/t`} />);
    const [[text, title] = [], ...others] = links();
    expect(text).toMatch(/^a\\u\{202e\}bx{29}… \/ t$/);
    expect(title).toContain(`${"x".repeat(80)} / t (${ALICE}/t)`);
    expect(others).toEqual([]);
  });
});
