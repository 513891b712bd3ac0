import { expect, test } from "vitest";

import { isPage, linkOf, slug } from "./help";

test.each([
  ["start", "images.md", "/help/images"],
  ["start", "scheduling.md#promised-start", "/help/scheduling#promised-start"],
  ["start", "#timeout", "#timeout"],
  ["start", "adr/0004-x.md", "/help/adr/0004-x"],
  ["adr/0004-x", "0005-y.md", "/help/adr/0005-y"],
  ["adr/0004-x", "../states.md#ends", "/help/states#ends"],
  // What leaves the documentation, or is no page of it, is no link.
  ["start", "../README.md", null],
  ["adr/0004-x", "../../deploy/x.md", null],
  ["start", "/etc/x.md", null],
  ["start", "javascript:x.md", null],
  ["start", "../deploy/examples/digits.yaml", null],
])("on %s a link to %s leads to %s", (from, href, to) => {
  expect(linkOf(from, href)).toBe(to);
});

test("only plain names are pages", () => {
  expect(["start", "adr/0004-x"].every(isPage)).toBe(true);
  expect(["", "..", "a/../b", "/a", "a//b", "a%2fb", "a.md", "<img>"].some(isPage)).toBe(false);
});

test("anchors are those of GitHub", () => {
  expect(slug("Estimated and promised start")).toBe("estimated-and-promised-start");
  expect(slug("The box: who runs, who has run")).toBe("the-box-who-runs-who-has-run");
  expect(slug("[task_manager.limits]")).toBe("task_managerlimits");
});
