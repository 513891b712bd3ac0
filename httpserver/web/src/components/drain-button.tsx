import { useQueryClient } from "@tanstack/react-query";

import { useAct } from "../api/act";
import { api, body } from "../api/client";
import { keys } from "../api/events";
import { DEADLINES } from "../domain/drain";
import { Failure } from "./basics";

/** Empties a machine by a deadline: what still runs then is run elsewhere. For admins. */
export function DrainButton({ id, deadline, busy }: { id: string; deadline: number | null; busy: boolean }) {
  const client = useQueryClient();
  const act = useAct(
    (within_s: number) => body(api.POST("/api/v1/nodes/{id}/drain", { params: { path: { id } }, body: { note: "", within_s } })),
    { after: () => client.invalidateQueries({ queryKey: keys.nodes }) },
  );
  return (
    <>
      <select
        aria-label={`Empty ${id} by a deadline`}
        disabled={busy || act.busy}
        title="Start no new tasks here. What still runs at the deadline is stopped, and run again on another machine."
        value=""
        onChange={(event) => {
          const within = Number(event.target.value);
          if (within > 0) act.run(within);
        }}
      >
        <option value="">{deadline === null ? "Empty by a deadline …" : "Another deadline …"}</option>
        {DEADLINES.map(([words, seconds]) => (
          <option key={seconds} value={seconds}>
            within {words}
          </option>
        ))}
      </select>
      {act.error && <Failure error={act.error} />}
    </>
  );
}
