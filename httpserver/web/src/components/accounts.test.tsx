import { act } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";

import { type ListedUser, accounts, own } from "../api/accounts";
import { ApiError } from "../api/client";
import { NO_LIMIT_CHOICE, quotaBytes } from "../domain/quota";
import { type Drawn, button, drawn, enter, escape, press, until } from "../testing";
import { DisableDialog, QuotaDialog, RemoveDialog, ResetDialog, RightsDialog } from "./account-dialogs";
import { NewAccountDialog } from "./account-new";
import { HeldTable } from "./held";
import { Once } from "./once";
import { Sessions } from "./sessions";
import { Tokens } from "./tokens";

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
  return press(label?.control ?? document.body);
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

/** An answer that comes when the test says so. */
function later<T>(): { readonly answer: Promise<T>; readonly come: (value: T) => void } {
  let come: (value: T) => void = () => undefined;
  const answer = new Promise<T>((resolve) => (come = resolve));
  return { answer, come };
}

const open = (): boolean => document.querySelector("dialog")?.open === true;

/** Types into a field that React watches. */
async function type(field: HTMLInputElement, value: string): Promise<void> {
  await act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(field, value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

describe("the only copy of a secret", () => {
  it.each([
    [
      "another password",
      (onClose: () => void) => <ResetDialog {...asked} onClose={onClose} />,
      async () => {
        const { answer, come } = later<{ password: string }>();
        vi.spyOn(accounts, "resetPassword").mockReturnValue(answer);
        return () => come({ password: "only-now" });
      },
      "Make a new password",
    ],
    [
      "a new account",
      (onClose: () => void) => <NewAccountDialog onMade={() => undefined} onClose={onClose} />,
      async () => {
        await type(document.querySelector("dialog input") as HTMLInputElement, "eve");
        const { answer, come } = later<{ user: ListedUser; password: string }>();
        vi.spyOn(accounts, "create").mockReturnValue(answer);
        return () => come({ user: eve, password: "only-now" });
      },
      "Make the account",
    ],
  ] as const)("of %s is not lost by Escape, only put away by its button", async (_, shown, prepare, label) => {
    const closed = vi.fn();
    page = await drawn(shown(closed));
    const come = await prepare();
    await press(button(label));
    for (const insists of [false, true]) {
      await escape(insists);
      expect([open(), closed.mock.calls.length]).toEqual([true, 0]);
    }
    expect(button("Cancel").disabled).toBe(true);
    await act(async () => come());
    await until(() => expect(text()).toContain("only-now"));
    for (const insists of [false, true]) {
      await escape(insists);
      expect([open(), closed.mock.calls.length]).toEqual([true, 0]);
    }
    await press(button("I have it"));
    expect(closed).toHaveBeenCalledOnce();
  });

  it("of a token stays beside the next one", async () => {
    vi.spyOn(own, "tokens").mockResolvedValue([]);
    const make = vi.spyOn(own, "makeToken");
    page = await drawn(<Tokens />);
    for (const name of ["one", "two"]) {
      make.mockResolvedValueOnce({ id: name, name, token: `hwt_${name}`, created_at: 1, used_at: null, expires_at: null });
      await type(document.querySelector("form input") as HTMLInputElement, name);
      await enter(document.querySelector("form input") as HTMLInputElement);
      await until(() => expect(text()).toContain(`hwt_${name}`));
    }
    expect(text()).toContain("hwt_one");
    await press(button("I have it"));
    expect(text()).not.toContain("hwt_one");
    expect(text()).toContain("hwt_two");
  });

  it("is asked for, until then Escape closes as everywhere", async () => {
    const closed = vi.fn();
    page = await drawn(<ResetDialog {...asked} onClose={closed} />);
    await escape();
    expect(closed).toHaveBeenCalledOnce();
  });
});

describe("what another admin does meanwhile", () => {
  it("is not taken back by rights that this one did not touch", async () => {
    const change = vi.spyOn(accounts, "change").mockResolvedValue(eve);
    page = await drawn(<RightsDialog {...asked} />);
    await choose("High priority");
    await page.draw(<RightsDialog {...asked} user={{ ...eve, may_use_image_user: true }} />);
    await press(button("Save"));
    expect(change).toHaveBeenCalledWith("eve", { may_use_high_priority: true });
  });

  it("is what an untouched quota shows and keeps", async () => {
    const change = vi.spyOn(accounts, "change").mockResolvedValue(eve);
    page = await drawn(<QuotaDialog {...asked} />);
    await page.draw(<QuotaDialog {...asked} user={{ ...eve, quota_bytes: 4096 }} />);
    await press(button("Save"));
    expect(change).toHaveBeenCalledWith("eve", { quota_bytes: 4096 });
  });
});

describe("a quota", () => {
  it.each(["0.1B", "1025TiB"])("that can't be names a choice that is there: %s", async (typed) => {
    page = await drawn(<QuotaDialog {...asked} />);
    expect(quotaBytes(typed)).toContain(`“${NO_LIMIT_CHOICE}”`);
    expect([...document.querySelectorAll("label")].map((one) => one.textContent)).toContain(NO_LIMIT_CHOICE);
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
  const row = { id: "s1", created_at: 1, used_at: null, expires_at: 2, address: "10.0.0.7", agent: "curl", way: "password", current: true };

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
