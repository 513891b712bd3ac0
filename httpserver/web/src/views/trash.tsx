import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { useAct } from "../api/act";
import { keys } from "../api/events";
import { type TrashItem, spaces } from "../api/spaces";
import { Empty, Failure, useNow, useTitle } from "../components/basics";
import { DeleteDialog } from "../components/delete-dialog";
import { tell } from "../components/toasts";
import { Moment } from "../components/when";
import { Trouble } from "../components/kept-answer";
import { size } from "../domain/format";
import { visible } from "../domain/paths";
import { firstPress } from "../domain/press";
import { SpaceBar } from "./files";

export function Trash() {
  useTitle("Trash");
  const client = useQueryClient();
  const [emptying, setEmptying] = useState(false);
  const now = useNow(60_000);
  const trash = useQuery({ queryKey: keys.trash, queryFn: spaces.trash });
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: keys.files });
  const restore = useAct(
    // Where it was is not known any more after some accidents: it then gets a name of its own.
    (item: TrashItem) => spaces.restore(item.id, item.path === null ? `restored-${item.id}` : undefined),
    { done: (back) => tell(`It is back at ${visible(back.path)}.`), after: changed },
  );
  const forget = useAct(spaces.forget, { after: changed });
  const items = trash.data ?? [];
  const busy = restore.busy || forget.busy;
  return (
    <>
      <div className="title-row">
        <h1>Trash</h1>
        <div className="actions">
          <Link className="button" href="/files">
            Files
          </Link>
          {items.length > 0 && <button onClick={() => setEmptying(true)}>Empty the trash …</button>}
        </div>
      </div>
      <p className="facts">Deleted files stay here for a while. Until then they still use your quota.</p>
      <SpaceBar />
      <Trouble of={trash} />
      {restore.error && <Failure error={restore.error} />}
      {forget.error && <Failure error={forget.error} />}
      {trash.isPending && <p className="empty">Loading …</p>}
      {trash.data !== undefined && items.length === 0 && <Empty>The trash is empty.</Empty>}
      {items.length > 0 && (
        <div className="scroll">
          <table className="wide">
            <thead>
              <tr>
                <th>Where it was</th>
                <th>Kind</th>
                <th>Size</th>
                <th>Deleted</th>
                <th>Deleted for good on</th>
                <th>
                  <span className="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <tr key={item.id}>
                  <td className="name">{placeOf(item)}</td>
                  <td>{item.kind}</td>
                  <td className="number">{size(item.size_bytes)}</td>
                  <td className="number"><Moment at={item.deleted_at} now={now} /></td>
                  <td className="number" data-label="deleted for good on">
                    <Moment at={item.expires_at} now={now} />
                  </td>
                  <td className="row-action">
                    {/* Under a second click there is the next one by now. */}
                    <button
                      className="small"
                      disabled={busy}
                      aria-label={`Restore ${placeOf(item)}`}
                      onClick={(e) => firstPress(e) && restore.run(item)}
                    >
                      Restore
                    </button>{" "}
                    <button
                      className="small"
                      disabled={busy}
                      aria-label={`Delete for good: ${placeOf(item)}`}
                      onClick={(e) => firstPress(e) && forget.run(item.id)}
                    >
                      Delete for good
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {emptying && (
        <DeleteDialog
          what="all that is in the trash"
          jobs={[]}
          onDelete={{ now: spaces.emptyTrash, wait: null }}
          onDone={() => {
            setEmptying(false);
            void changed();
          }}
          onClose={() => setEmptying(false)}
        >
          <p>It can't be brought back after that.</p>
        </DeleteDialog>
      )}
    </>
  );
}

const placeOf = (item: TrashItem): string => (item.path === null ? "unknown" : visible(item.path));
