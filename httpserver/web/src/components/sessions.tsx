import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { useAct } from "../api/act";
import { own, ownKeys } from "../api/accounts";
import { Failure, useNow } from "./basics";
import { EndAllDialog } from "./end-all-dialog";
import { HeldTable } from "./held";
import { Trouble } from "./kept-answer";

/** Where one is signed in. */
export function Sessions() {
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const now = useNow(60_000);
  const list = useQuery({ queryKey: ownKeys.sessions, queryFn: own.sessions });
  const rows = list.data ?? [];
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: ownKeys.sessions });
  const end = useAct(own.endSession, { after: changed });
  return (
    <section className="panel" aria-labelledby="sessions">
      <div className="title-row">
        <h2 id="sessions">Sessions</h2>
        {rows.some((row) => !row.current) && (
          <button className="small" onClick={() => setAsking(true)}>
            End all others …
          </button>
        )}
      </div>
      <p className="note">Each sign-in by a browser or the command line is a session. End those that you don’t know, and change your password then.</p>
      <Trouble of={list} />
      {end.error && <Failure error={end.error} />}
      {rows.length > 0 && <HeldTable label="Sessions" rows={rows} now={now} action="End" busy={end.busy} onEnd={(row) => end.run(row.id)} />}
      {asking && (
        <EndAllDialog
          title="End all your other sessions?"
          onEnd={own.endOthers}
          onClose={() => {
            setAsking(false);
            void changed();
          }}
        >
          <p>This browser stays signed in. All others are asked for the password again, and what they upload stops.</p>
        </EndAllDialog>
      )}
    </section>
  );
}
