/** What an admin is asked before something happens to an account. Each of them names it. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { type HomeFate, type ListedUser, MOST_COUNTED, accounts } from "../api/accounts";
import { RIGHTS, type Rights, RightsChoice } from "./account-rights";
import { Failure } from "./basics";
import { Dialog } from "./dialog";
import { Field, OtherFailure } from "./field";
import { Once } from "./once";
import { QuotaChoice, type QuotaState, quotaState, quotaWanted } from "./quota-choice";

interface Asked {
  readonly user: ListedUser;
  /** Whether it is the account of who asks. */
  readonly self: boolean;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** One act at a time, and what was refused. */
function useOnce(): { busy: boolean; error: Error | null; run: (act: () => Promise<unknown>) => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  return {
    busy,
    error,
    run: (act) => {
      if (busy) return;
      setBusy(true);
      setError(null);
      act()
        .catch(setError)
        .finally(() => setBusy(false));
    },
  };
}

const Self = () => <p className="reason">This is your own account.</p>;

export function DisableDialog({ user, self, onDone, onClose }: Asked) {
  const [cancel, setCancel] = useState<boolean | null>(null);
  const [keepTokens, setKeepTokens] = useState(false);
  const { busy, error, run } = useOnce();
  const jobs = useQuery({ queryKey: ["live jobs", user.name], queryFn: () => accounts.liveJobs(user.name), staleTime: 0 });
  const live = jobs.data ?? 0;
  // Who has to be shut out at once is, also while nobody can say whether there are jobs.
  const choose = live > 0 || jobs.isError;
  const unsure = jobs.isPending || (choose && cancel === null);
  return (
    <Dialog
      title={`Disable the account ${user.name}?`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => {
        if (!unsure) run(() => accounts.change(user.name, { enabled: false, cancel_jobs: cancel === true, keep_tokens: keepTokens }).then(onDone));
      }}
      actions={
        <button className="danger" disabled={busy || unsure}>
          Disable {user.name}
        </button>
      }
    >
      {self && <Self />}
      <p>Nobody can sign in as {user.name} any more. Its sessions end at once, and what goes on with them: live pages, logs, uploads.</p>
      {jobs.isError && <Failure error={jobs.error} again={() => void jobs.refetch()} />}
      {jobs.isSuccess && live === 0 && <p>It has no jobs that wait or run.</p>}
      {choose && (
        <fieldset className="radios">
          <legend>{jobs.isError ? "Jobs that may not have ended" : liveWords(live)}</legend>
          <label>
            <input type="radio" name="jobs" checked={cancel === false} onChange={() => setCancel(false)} />
            What runs goes on. What waits is held until the account is enabled again.
          </label>
          <label>
            <input type="radio" name="jobs" checked={cancel === true} onChange={() => setCancel(true)} />
            Cancel what has not ended.
          </label>
        </fieldset>
      )}
      <label>
        <input type="checkbox" checked={keepTokens} onChange={(e) => setKeepTokens(e.target.checked)} />
        Keep its tokens: they work again once the account is enabled. Otherwise they end.
      </label>
      <OtherFailure error={error} at={[]} />
    </Dialog>
  );
}

const liveWords = (live: number): string => `${live >= MOST_COUNTED ? `${MOST_COUNTED} or more` : live} job${live === 1 ? " has" : "s have"} not ended`;

export function ResetDialog({ user, onDone, onClose }: Asked) {
  const [keepTokens, setKeepTokens] = useState(false);
  const [made, setMade] = useState("");
  const { busy, error, run } = useOnce();
  if (made !== "") {
    return (
      <Dialog title={`${user.name} has a new password`} dismiss="I have it" actions={null} secret onClose={onClose} onSubmit={() => undefined}>
        <Once what={`The new password of ${user.name}:`} secret={made} />
      </Dialog>
    );
  }
  const reset = async (): Promise<void> => {
    setMade((await accounts.resetPassword(user.name, keepTokens)).password);
    onDone();
  };
  return (
    <Dialog
      title={`Give ${user.name} a new password?`}
      busy={busy}
      secret={busy}
      onClose={onClose}
      onSubmit={() => run(reset)}
      actions={
        <button className="danger" disabled={busy}>
          Make a new password
        </button>
      }
    >
      <p>The server makes it, and shows it once. The old password and all sessions of {user.name} end at once.</p>
      <label>
        <input type="checkbox" checked={keepTokens} onChange={(e) => setKeepTokens(e.target.checked)} />
        Keep its tokens. Otherwise they end, too.
      </label>
      {error && <Failure error={error} />}
    </Dialog>
  );
}

export function QuotaDialog({ user, onDone, onClose }: Asked) {
  // Untouched, it shows what another admin sets meanwhile.
  const [chosen, setQuota] = useState<QuotaState | null>(null);
  const quota = chosen ?? quotaState(user.quota_bytes ?? null);
  const [tried, setTried] = useState(false);
  const { busy, error, run } = useOnce();
  return (
    <Dialog
      title={`Quota of ${user.name}`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => {
        setTried(true);
        const bytes = quotaWanted(quota);
        if (typeof bytes === "number") run(() => accounts.change(user.name, { quota_bytes: bytes }).then(onDone));
      }}
      actions={
        <button className="main" disabled={busy}>
          Save
        </button>
      }
    >
      <QuotaChoice state={quota} error={error} tried={tried} onChange={setQuota} />
      <OtherFailure error={error} at={["/quota_bytes"]} />
    </Dialog>
  );
}

export function RightsDialog({ user, self, onDone, onClose }: Asked) {
  // What this admin touched; the rest is what the account has by now, whoever gave it.
  const [wanted, setWanted] = useState<Partial<Rights>>({});
  const { busy, error, run } = useOnce();
  const rights = { ...rightsOf(user), ...wanted };
  const changed = RIGHTS.map(([key]) => key).filter((key) => rights[key] !== user[key]);
  return (
    <Dialog
      title={`What ${user.name} may do`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => {
        if (changed.length === 0) onClose();
        else run(() => accounts.change(user.name, Object.fromEntries(changed.map((key) => [key, rights[key]]))).then(onDone));
      }}
      actions={
        <button className={user.admin && !rights.admin ? "danger" : "main"} disabled={busy}>
          Save
        </button>
      }
    >
      {self && user.admin && <Self />}
      <RightsChoice rights={rights} error={error} onChange={(next) => setWanted(differing(user, next))} />
      <OtherFailure error={error} at={["/admin", "/may_use_high_priority", "/may_use_image_user"]} />
    </Dialog>
  );
}

const rightsOf = ({ admin, may_use_high_priority, may_use_image_user }: Rights): Rights => ({ admin, may_use_high_priority, may_use_image_user });

const differing = (user: Rights, next: Rights): Partial<Rights> =>
  Object.fromEntries(RIGHTS.filter(([key]) => next[key] !== user[key]).map(([key]) => [key, next[key]]));

export function RemoveDialog({ user, others, onGone, onClose }: Asked & { others: readonly string[]; onGone: (told: string) => void }) {
  const [home, setHome] = useState<HomeFate>("keep");
  const [to, setTo] = useState("");
  const { busy, error, run } = useOnce();
  const choice = (fate: HomeFate, text: ReactNode): ReactNode => (
    <label>
      <input type="radio" name="home" checked={home === fate} onChange={() => setHome(fate)} />
      {text}
    </label>
  );
  const remove = async (): Promise<void> => {
    const answer = await accounts.remove(user.name, home, home === "hand_over" ? to : "");
    const files = { keep: "Its files stay.", delete: "Its files are deleted.", hand_over: answer.home ? `Its files are in ${answer.home} of ${to}.` : "It had no files." };
    onGone(`The account ${user.name} is removed. ${files[home]}`);
  };
  return (
    <Dialog
      title={`Remove the account ${user.name} for good?`}
      busy={busy}
      onClose={onClose}
      onSubmit={() => run(remove)}
      actions={
        <button className="danger" disabled={busy || (home === "hand_over" && to === "")}>
          {busy ? "Removing it …" : `Remove ${user.name}`}
        </button>
      }
    >
      <p>Nobody gets the name {user.name} or its uid again. Its jobs, images and datasets stay; admins see the jobs.</p>
      <fieldset className="radios">
        <legend>The files of its personal space</legend>
        {choice("keep", "stay where they are")}
        {choice("hand_over", "go to another account")}
        {choice("delete", "are deleted for good")}
      </fieldset>
      {home === "hand_over" && (
        <Field label="Who gets them" at="/to" error={error} hint={`They lie in the folder from-${user.name} then.`}>
          {(props) => (
            <select {...props} value={to} onChange={(e) => setTo(e.target.value)} required>
              <option value="">choose …</option>
              {others.map((other) => (
                <option key={other}>{other}</option>
              ))}
            </select>
          )}
        </Field>
      )}
      <OtherFailure error={error} at={home === "hand_over" ? ["/to"] : []} />
    </Dialog>
  );
}
