import { afterEach, expect, it } from "vitest";

import type { Task } from "../api/client";
import { type Drawn, drawn } from "../testing";
import { Waiting } from "./waiting";

let page: Drawn;
afterEach(() => page.close());

const place = { position: 3, terms: {}, estimated_start_at: 2_000, estimate_rough: false, promised_start_at: null, first_promised_start_at: null };
const waiting = (facts: object): Task =>
  ({ name: "train", state: "QUEUED", waits: [{ word: "waiting_for_gpu", sentence: "It asks for 1 GPU." }], waits_for: [], place: { ...place, ...facts } }) as unknown as Task;

it.each([
  [{}, ["This is an estimate", "No start is promised to this task now."], ["no later than", "once no later task"]],
  [{ promised_start_at: 3_000 }, ["promised: no later than"], ["This is an estimate", "first:"]],
  [{ promised_start_at: 3_000, first_promised_start_at: 4_000 }, ["promised: no later than", "(first: "], ["This is an estimate"]],
])("a promise is told at once, and what is only an estimate: %o", async (facts, want, not) => {
  page = await drawn(<Waiting job="j1" task={waiting(facts)} now={1_000} />);
  const text = document.body.textContent ?? "";
  for (const part of want) expect(text).toContain(part);
  for (const part of not) expect(text).not.toContain(part);
});
