import { useState } from "react";

import { accounts } from "../api/accounts";
import { AS_CONFIGURED } from "../domain/quota";
import { NO_RIGHTS, RightsChoice } from "./account-rights";
import { Dialog } from "./dialog";
import { Field, OtherFailure } from "./field";
import { Once } from "./once";
import { QuotaChoice, quotaState, quotaWanted } from "./quota-choice";

const NAME = /^[a-z_][a-z0-9_-]{0,31}$/;
const FIELDS = ["/name", "/admin", "/may_use_high_priority", "/may_use_image_user", "/quota_bytes"];

/** Makes an account; the server makes its password. */
export function NewAccountDialog({ onMade, onClose }: { onMade: () => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [rights, setRights] = useState(NO_RIGHTS);
  const [quota, setQuota] = useState(quotaState(null));
  const [tried, setTried] = useState(false);
  const [made, setMade] = useState<{ readonly name: string; readonly password: string } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const wrong = name !== "" && !NAME.test(name) ? "A name has up to 32 small letters, digits, _ and -. It begins with a letter or _." : "";
  const rename = (typed: string): void => {
    setName(typed);
    setError(null); // it was about another name
  };
  const make = (): void => {
    setTried(true);
    const bytes = quotaWanted(quota);
    if (busy || made !== null || wrong !== "" || typeof bytes === "string") return;
    setBusy(true);
    setError(null);
    accounts
      .create({ name, ...rights, ...(bytes === AS_CONFIGURED ? {} : { quota_bytes: bytes }) })
      .then((answer) => {
        setMade({ name: answer.user.name, password: answer.password ?? "" });
        onMade();
      }, setError)
      .finally(() => setBusy(false));
  };
  if (made !== null) {
    return (
      <Dialog title={`The account ${made.name} is made`} dismiss="I have it" actions={null} secret onClose={onClose} onSubmit={() => undefined}>
        <Once what={`The password of ${made.name}:`} secret={made.password}>
          <p className="note">Give it to {made.name}, who can change it on the page “Account”.</p>
        </Once>
      </Dialog>
    );
  }
  return (
    <Dialog
      title="New account"
      busy={busy}
      secret={busy}
      onClose={onClose}
      onSubmit={make}
      actions={
        <button className="main" disabled={busy || wrong !== "" || name === ""}>
          {busy ? "Making it …" : "Make the account"}
        </button>
      }
    >
      <Field label="Name" at="/name" error={error} wrong={wrong}>
        {(props) => (
          <input {...props} value={name} autoFocus autoComplete="off" autoCapitalize="none" spellCheck={false} onChange={(e) => rename(e.target.value)} />
        )}
      </Field>
      <RightsChoice rights={rights} error={error} onChange={setRights} />
      <QuotaChoice state={quota} error={error} tried={tried} onChange={setQuota} />
      <p className="note">The server makes a password, and shows it once.</p>
      <OtherFailure error={error} at={FIELDS} />
    </Dialog>
  );
}
