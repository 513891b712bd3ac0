import { expect, it } from "vitest";

import { connectionAfter } from "./connection-state";

it("knows since when changes may be missing, however often it is tried again", () => {
  const live = { state: "live", since: 1 } as const;
  const lost = connectionAfter(live, "connecting", 50);
  expect(lost).toEqual({ state: "connecting", since: 50 });
  const broken = connectionAfter(lost, "broken", 60);
  expect(broken).toEqual({ state: "broken", since: 50 });
  expect(connectionAfter(broken, "connecting", 70).since).toBe(50);
  expect(connectionAfter(broken, "live", 80)).toEqual({ state: "live", since: 80 });
  expect(connectionAfter(live, "live", 90)).toBe(live);
});
