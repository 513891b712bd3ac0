/** What the page and the server must read alike: tests/unit/jobfile/test_page.py reads the same fixtures. */
import { expect, it } from "vitest";
import { Scalar } from "yaml";

import words from "./fixtures/plain-words.json";
import trips from "./fixtures/trips.json";
import { readForm } from "./read-form";
import { carried } from "./write-form";
import { isText } from "./yaml-file";

it.each(Object.entries(words))("%j without quotes is a text: %s", (word, text) => {
  const node = new Scalar(word);
  node.type = "PLAIN";
  expect(isText(node)).toBe(text);
});

it.each(trips)("a trip through the form changes what was changed there", ({ file, after }) => {
  const { form } = readForm(file);
  if (form === null) throw new Error("no form");
  expect(carried(file, { ...form, name: "another", tasks: form.tasks.map((task) => ({ ...task, grace: "5s" })) })).toBe(after);
});
