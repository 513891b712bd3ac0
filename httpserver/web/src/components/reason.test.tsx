import { afterEach, expect, it } from "vitest";

import type { Job } from "../api/client";
import { type Drawn, drawn } from "../testing";
import { JobReason } from "./reason";

let page: Drawn;
afterEach(() => page.close());

it.each([
  [null, "It was cancelled, by admin."],
  ["train", "train: It was cancelled, by admin."],
])("of task %s", async (reason_task, want) => {
  const reason = { sentence: "It was `cancelled`, by admin." } as Job["reason"];
  page = await drawn(<JobReason job={{ reason, reason_task }} />);
  expect(document.body.textContent).toBe(want);
});
