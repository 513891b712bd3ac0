import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { type Queue, type Scheduling, api, body } from "../api/client";
import { keys } from "../api/events";
import { span } from "../domain/format";
import { disciplineDoes, disciplines, policies, policyDoes, promises } from "../domain/scheduling";
import { Failure } from "./basics";
import { Dialog } from "./dialog";
import { HelpLink } from "./help-link";
import { tell } from "./toasts";
import { Told } from "./told";
import { When } from "./when";

/** What orders the queue and who said so; an admin may say otherwise. */
export function SchedulingPanel({ scheduling, waiting, admin, now }: { scheduling: Scheduling; waiting: number; admin: boolean; now: number }) {
  const [asking, setAsking] = useState<Wish | null>(null);
  const { policy, discipline, failure } = scheduling;
  const changed = scheduling.policy_set_by !== null || scheduling.discipline_set_by !== null;
  return (
    <section className="panel" aria-label="What orders the queue">
      {failure && (
        <div className="failure" role="alert">
          <b>The policy of the queue fails.</b> Another policy replaces it for now. No task is lost, and promised starts stay.
          <p>
            <Told text={failure} />.
          </p>
        </div>
      )}
      {scheduling.contradictions.map((sentence) => (
        <div key={sentence} className="failure" role="alert">
          <b>The limits contradict each other.</b> An admin can change them in headway.toml (<code>task_manager.limits</code>).
          <p>
            <Told text={sentence} />
          </p>
        </div>
      ))}
      <dl className="facts-list">
        <Fact name="Policy (who goes first)" value={policy} does={policyDoes(policy)} by={scheduling.policy_set_by} at={scheduling.policy_set_at}
          configured={scheduling.configured_policy} now={now} admin={admin} />
        <Fact name="Overtaking rule (who may start before whom)" value={discipline} does={disciplineDoes(discipline)} by={scheduling.discipline_set_by}
          at={scheduling.discipline_set_at} configured={scheduling.configured_discipline} now={now} admin={admin} />
      </dl>
      {scheduling.promises === "late" && discipline === "conservative" && (
        <p className="note">
          {promisedOf(scheduling.promised, waiting)}
          {admin && scheduling.promised > 0 && `, ${scheduling.promised > 1 ? "on average " : ""}${span(scheduling.slack_s)} later than estimated: more time for running tasks comes out of that`}.
        </p>
      )}
      {admin && (
        <div className="actions">
          <button onClick={() => setAsking({ policy, discipline })}>Change …</button>
          {changed && (
            <button onClick={() => setAsking("default")}>Back to what is configured …</button>
          )}
        </div>
      )}
      {asking !== null && (
        <SetDialog scheduling={scheduling} first={asking} waiting={waiting} onClose={() => setAsking(null)} />
      )}
    </section>
  );
}

/** How many of those that wait have a promise: behind very many others a task gets one later. */
const promisedOf = (promised: number, waiting: number): string =>
  waiting === 0
    ? "Every task that has to wait is promised a start at once"
    : promised >= waiting
      ? `${waiting === 1 ? "The waiting task is" : `All ${waiting} waiting tasks are`} promised a start`
      : `${promised} of ${waiting} waiting ${waiting === 1 ? "task" : "tasks"} ${promised === 1 ? "is" : "are"} promised a start`;

/** In plain words; the word of the configuration is for those who set it, and shows to others when pointed at. */
function Fact({ name, value, does, by, at, configured, now, admin }: {
  name: string;
  value: string;
  does: string;
  by: string | null;
  at: number | null;
  configured: string;
  now: number;
  admin: boolean;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {does ? <span title={`Its word in settings: ${value}`}>{does}</span> : <code>{value}</code>} <HelpLink topic="order" />
        {does && admin && (
          <span className="note">
            {" "}
            Its word: <code>{value}</code>.
          </span>
        )}
        {by !== null && (
          <span className="note">
            {" "}
            Set by {by}
            {at !== null && (
              <>
                , <When at={at} now={now} distance={false} />
              </>
            )}
            ; configured: <code title={policyDoes(configured) || disciplineDoes(configured)}>{configured}</code>.
          </span>
        )}
      </dd>
    </div>
  );
}

/** What to begin with; `default`: both as configured. */
type Wish = { readonly policy: string; readonly discipline: string } | "default";

/** Chosen first, then told once more what it means: it concerns everybody's tasks. */
function SetDialog({ scheduling, first, waiting, onClose }: {
  scheduling: Scheduling;
  first: Wish;
  waiting: number;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const back = first === "default";
  const configured = { policy: scheduling.configured_policy, discipline: scheduling.configured_discipline };
  const [wish, setWish] = useState(first === "default" ? configured : first);
  const [sure, setSure] = useState(back);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const policy = wish.policy.trim();
  const change = {
    ...(back ? { policy: "default" } : policy !== scheduling.policy ? { policy } : {}),
    ...(back ? { discipline: "default" } : wish.discipline !== scheduling.discipline ? { discipline: wish.discipline } : {}),
  };
  const nothing = Object.keys(change).length === 0 || policy === "";
  const set = (part: Partial<typeof wish>): void => {
    setWish({ ...wish, ...part });
    setError(null);
  };

  const save = (): void => {
    if (busy || nothing) return;
    if (!sure) {
      setSure(true);
      return;
    }
    setBusy(true);
    setError(null);
    body(api.PATCH("/api/v1/queue", { body: change }))
      .then(
        (acts) => {
          for (const queryKey of [keys.queue, keys.wholeQueue]) {
            client.setQueriesData<Queue>({ queryKey }, (old) => old && { ...old, scheduling: acts });
            void client.invalidateQueries({ queryKey });
          }
          tell(`${acts.policy} and ${acts.discipline} order the queue now.`);
          onClose();
        },
        (refused: Error) => {
          setError(refused);
          // What was wrong is to be chosen anew.
          if (!back) setSure(false);
        },
      )
      .finally(() => setBusy(false));
  };

  return (
    <Dialog
      title={back ? "Back to what is configured?" : sure ? "Change the order of the queue?" : "What orders the queue"}
      busy={busy}
      onClose={onClose}
      onSubmit={save}
      actions={
        <>
          {sure && !back && (
            <button type="button" disabled={busy} onClick={() => setSure(false)}>
              Back
            </button>
          )}
          <button className="main" disabled={busy || nothing}>
            {sure ? "Set it for everybody" : "Go on"}
          </button>
        </>
      }
    >
      {sure ? (
        <>
          {"policy" in change && <Step name="Policy" from={scheduling.policy} to={wish.policy.trim()} does={policyDoes(wish.policy)} />}
          {"discipline" in change && (
            <Step name="Overtaking rule" from={scheduling.discipline} to={wish.discipline} does={disciplineDoes(wish.discipline)} />
          )}
          <p>
            {waiting === 0 ? "Nothing waits now." : waiting === 1 ? "The waiting task stays." : `All ${waiting} waiting tasks stay, in a new order.`}{" "}
            Running tasks go on. Promised starts stay.
            {promises(policy, wish.discipline, scheduling.promises) ? "" : " New starts are not promised under these rules."}
          </p>
          <p className="note">It holds until somebody changes it, also after a restart. Everybody sees who set it.</p>
        </>
      ) : (
        <>
          <label className="block">
            Policy
            <input
              list="policies"
              value={wish.policy}
              autoFocus
              spellCheck={false}
              autoComplete="off"
              maxLength={200}
              aria-describedby="policy-does"
              onChange={(e) => set({ policy: e.target.value })}
            />
          </label>
          <datalist id="policies">
            {policies.map((p) => (
              <option key={p.name} value={p.name}>
                {p.does}
              </option>
            ))}
          </datalist>
          <p className="note" id="policy-does">
            {policyDoes(policy) || "Headway does not know this policy. An installed package may bring it."} Parameters come after a colon: <code>log_aging:c=600</code>.
          </p>
          <fieldset className="radios">
            <legend>Overtaking rule: who may start before whom</legend>
            {disciplines.map((d) => (
              <label key={d.name}>
                <input
                  type="radio"
                  name="discipline"
                  value={d.name}
                  checked={wish.discipline === d.name}
                  onChange={() => set({ discipline: d.name })}
                />
                <span>
                  <b>{d.name}</b> {d.does}
                </span>
              </label>
            ))}
          </fieldset>
        </>
      )}
      {error && <Failure error={error} />}
    </Dialog>
  );
}

function Step({ name, from, to, does }: { name: string; from: string; to: string; does: string }) {
  return (
    <p>
      {name}: <code>{from}</code>
      {from === to ? " stays, as configured" : <> → <code>{to}</code></>}. {does}
    </p>
  );
}
