/** Sessions and tokens in a table: when they began, when they were used, when they end. */
import type { OwnSession, Session, Token } from "../api/accounts";
import { moment } from "../domain/format";
import { visible } from "../domain/paths";
import { firstPress } from "../domain/press";

type Row = Token | Session | OwnSession;

export const nameOf = (row: Row): string => ("name" in row ? visible(row.name) : "");
/** The address and the way of a session; a dash where an older Headway opened it. */
const cameFrom = (row: Row): string => ("address" in row ? [row.address, row.way].filter((one) => one !== "").map(visible).join(", ") : "") || "–";
const agentOf = (row: Row): string | undefined => ("agent" in row && row.agent !== "" ? visible(row.agent) : undefined);
const isCurrent = (row: Row): boolean => "current" in row && row.current;

export function HeldTable({
  label,
  rows,
  now,
  action,
  busy = false,
  onEnd,
}: {
  label: string;
  rows: readonly Row[];
  now: number;
  /** What ending one is called. */
  action: string;
  busy?: boolean;
  onEnd: (row: Row) => void;
}) {
  const named = rows.some((row) => "name" in row);
  return (
    <div className="scroll">
      <table aria-label={label} className="wide">
        <thead>
          <tr>
            {named && <th>Name</th>}
            <th>{named ? "Made" : "Signed in"}</th>
            {!named && <th>From</th>}
            <th>Last used</th>
            <th>Ends</th>
            <th>
              <span className="hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              {named && <td className="name">{nameOf(row)}</td>}
              <td className="number" data-label={named ? "made" : "signed in"}>
                {moment(row.created_at, now)}
              </td>
              {!named && (
                <td data-label="from" title={agentOf(row)}>
                  {cameFrom(row)}
                </td>
              )}
              <td className="number" data-label="last used">
                {row.used_at === null ? "never" : moment(row.used_at, now)}
              </td>
              <td className="number" data-label="ends">
                {row.expires_at === null ? "never" : moment(row.expires_at, now)}
              </td>
              <td className="row-action">
                {isCurrent(row) ? (
                  <span className="note">this browser</span>
                ) : (
                  <button
                    className="small"
                    disabled={busy}
                    aria-label={`${action.replace(" …", "")} ${nameOf(row) || `the session of ${moment(row.created_at, now)}`}`}
                    onClick={(e) => firstPress(e) && onEnd(row)}
                  >
                    {action}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
