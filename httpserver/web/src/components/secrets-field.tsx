import { useId } from "react";

import type { ProblemItem } from "../api/client";
import { Messages } from "./form-field";
import { HelpLink } from "./help-link";

/** Secrets that a task gets as variables of their names: of one's own, and of those that the file names. */
export function SecretsField({
  chosen,
  known,
  problems,
  onChange,
}: {
  chosen: readonly string[];
  known: readonly string[] | null;
  problems: readonly ProblemItem[];
  onChange: (chosen: readonly string[]) => void;
}) {
  const id = useId();
  const names = [...new Set([...(known ?? []), ...chosen])];
  return (
    <div className="needs" role="group" aria-label="Secrets" aria-describedby={problems.length > 0 ? id : undefined}>
      <span>Secrets</span>
      <HelpLink topic="secret" />
      {names.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(e) => onChange(e.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))}
          />
          {name}
        </label>
      ))}
      {names.length === 0 && <small className="note">You have stored none yet: the page Account takes them.</small>}
      {chosen.length > 0 && <small className="note">environment variables, with the values that they have when the task starts</small>}
      <Messages problems={problems} id={id} />
    </div>
  );
}
