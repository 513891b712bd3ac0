import { afterEach, expect, it } from "vitest";

import { ApiError, type ProblemItem } from "../api/client";
import { type Drawn, drawn } from "../testing";
import { StartPreview } from "./start-preview";

let page: Drawn;
afterEach(() => page.close());

const problem = (message: string): ProblemItem => ({ message, pointer: "", line: null, column: null, word: "", allowed: [], suggestion: "" });
const tooMuch = ["8d is too long.", "99TiB is too much.", "3 GPUs are too many.", "A fourth.", "A fifth."].map(problem);

it.each([
  [new ApiError("5 problems.", 422, "unsatisfiable", tooMuch), ["would not accept", "8d is too long.", "99TiB", "3 GPUs", "And 2 more"], ["fourth"]],
  [new ApiError("You have too many waiting.", 429, "too-many-waiting"), ["would not accept", "too many waiting"], ["more"]],
  [new ApiError("Headway does not answer.", 0, "no-service"), ["No estimate now. Headway does not answer."], ["accept"]],
])("why there is no start: %s", async (refused, want, not) => {
  page = await drawn(
    <StartPreview advice={{ checked: null, refused, asking: false }} ready task="" compared={null} onTimeout={() => undefined} />,
  );
  const text = document.body.textContent ?? "";
  for (const part of want) expect(text).toContain(part);
  for (const part of not) expect(text).not.toContain(part);
  expect(document.querySelector("[role=alert]")).toBeNull();
});
