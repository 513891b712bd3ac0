import { afterEach, describe, expect, it, vi } from "vitest";

import { type ListedUser, accounts, own } from "../api/accounts";
import { ApiError } from "../api/client";
import { type Drawn, button, drawn, press, until } from "../testing";
import { DisableDialog, QuotaDialog, RemoveDialog } from "./account-dialogs";
import { HeldTable } from "./held";
import { Once } from "./once";
import { Sessions } from "./sessions";

const eve: ListedUser = {
  name: "eve",
  admin: false,
  enabled: true,
  uid: 20_001,
  gid: 20_001,
  may_use_image_user: false,
  may_use_high_priority: false,
  created_at: 1,
  signed_in_at: null,
  quota_bytes: 1024,
  space_used_bytes: 0,
  space_limit_bytes: 1024,
};
const asked = { user: eve, self: false, onDone: () => undefined, onClose: () => undefined };
const choose = (text: string): Promise<void> => {
  const label = [...document.querySelectorAll("label")].find((one) => one.textContent?.startsWith(text));
  return press(label?.querySelector("input") ?? document.body);
};
const text = (): string => document.body.textContent ?? "";

let page: Drawn | undefined;
afterEach(async () => {
  await page?.close();
  page = undefined;
  vi.restoreAllMocks();
});

describe("disabling an account", () => {
  it("waits for a word about its live jobs, and sends it", async () => {
    vi.spyOn(accounts, "liveJobs").mockResolvedValue(2);
    const change = vi.spyOn(accounts, "change").mockResolvedValue(eve);
    page = await drawn(<DisableDialog {...asked} />);
    await until(() => expect(text()).toContain("2 jobs have not ended"));
    expect(button("Disable eve").disabled).toBe(true);
    await choose("What runs goes on");
    await choose("Keep its tokens");
    await press(button("Disable eve"));
    expect(change).toHaveBeenCalledWith("eve", { enabled: false, cancel_jobs: false, keep_tokens: true });
  });

  it("asks for a word, too, while nobody knows whether there are any", async () => {
    const change = vi.spyOn(accounts, "change").mockResolvedValue(eve);
    vi.spyOn(accounts, "liveJobs").mockRejectedValue(new ApiError("JobManager does not answer.", 503, "unavailable"));
    page = await drawn(<DisableDialog {...asked} />);
    await until(() => expect(text()).toContain("JobManager does not answer."));
    expect(button("Disable eve").disabled).toBe(true);
    await choose("Cancel what");
    await press(button("Disable eve"));
    expect(change).toHaveBeenCalledWith("eve", { enabled: false, cancel_jobs: true, keep_tokens: false });
  });
});

describe("a refusal", () => {
  it("stands beside its field, and elsewhere where it has none", async () => {
    const change = vi.spyOn(accounts, "change");
    page = await drawn(<QuotaDialog {...asked} />);
    const sentence = "`quota_bytes` is too much.";
    const problem = { pointer: "/quota_bytes", message: sentence, line: null, column: null, word: "", allowed: [], suggestion: "" };
    change.mockRejectedValueOnce(new ApiError(sentence, 400, "invalid-input", [problem]));
    await press(button("Save"));
    await until(() => expect(document.querySelector(".field.wrong")?.textContent).toContain("quota_bytes is too much."));
    expect(document.querySelector(".failure")).toBeNull();
    change.mockRejectedValueOnce(new ApiError("Only an admin may do that.", 403, "not-allowed"));
    await press(button("Save"));
    await until(() => expect(document.querySelector(".failure")?.textContent).toContain("Only an admin may do that."));
    expect(document.querySelector(".field.wrong")).toBeNull();
  });
});

describe("removing an account", () => {
  it("needs to know who gets the files where somebody does", async () => {
    const remove = vi.spyOn(accounts, "remove").mockResolvedValue({ name: "eve", home: "" });
    const gone = vi.fn();
    page = await drawn(<RemoveDialog {...asked} others={["ann"]} onGone={gone} />);
    await choose("go to another account");
    expect(button("Remove eve").disabled).toBe(true);
    await choose("are deleted for good");
    await press(button("Remove eve"));
    expect(remove).toHaveBeenCalledWith("eve", "delete", "");
    await until(() => expect(gone).toHaveBeenCalledWith("The account eve is removed. Its files are deleted."));
  });
});

describe("a secret", () => {
  it("is marked where a browser gives no clipboard, and is kept nowhere", async () => {
    page = await drawn(<Once what="The token:" secret="hwt_secret" />);
    await press(button("Copy"));
    await until(() => expect(text()).toContain("Ctrl+C"));
    expect(getSelection()?.toString()).toBe("hwt_secret");
    expect(JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state])).not.toContain("hwt_secret");
  });
});

describe("sessions", () => {
  const row = { id: "s1", created_at: 1, used_at: null, expires_at: 2, current: true };

  it("end one by one, but for the one that asks", async () => {
    vi.spyOn(own, "sessions").mockResolvedValue([row, { ...row, id: "s2", current: false }]);
    const end = vi.spyOn(own, "endSession").mockResolvedValue({ ended: 1 });
    page = await drawn(<Sessions />);
    await until(() => expect(text()).toContain("this browser"));
    await press(button("End"));
    expect(end.mock.calls.map(([id]) => id)).toEqual(["s2"]);
  });

  it("and tokens show what a name hides", async () => {
    const token = { id: "t1", name: "a\u202eb", created_at: 1, used_at: null, expires_at: null };
    page = await drawn(<HeldTable label="Tokens" rows={[token]} now={3} action="Delete …" onEnd={() => undefined} />);
    expect(text()).toContain("a\\u{202e}b");
    expect(button("Delete …").getAttribute("aria-label")).toBe("Delete a\\u{202e}b");
  });
});
