import type { ReactNode } from "react";

import type { FieldProps } from "./field";
import { Field } from "./field";

export interface Rights {
  readonly admin: boolean;
  readonly may_use_high_priority: boolean;
  readonly may_use_image_user: boolean;
}

export const NO_RIGHTS: Rights = { admin: false, may_use_high_priority: false, may_use_image_user: false };
export const RIGHTS: readonly (readonly [key: keyof Rights, text: string, about: string])[] = [
  ["admin", "Admin", "sees and changes all jobs, files, machines and accounts"],
  ["may_use_high_priority", "High priority", "may submit jobs that go before others’"],
  ["may_use_image_user", "User of the image", "its tasks may run as the user that the image names, root included"],
];

/** In few words, for lists. */
export const grantsOf = (rights: Rights): readonly string[] =>
  RIGHTS.filter(([key]) => key !== "admin" && rights[key]).map(([, text]) => text.toLowerCase());

/** What an account may do besides what all may. */
export function RightsChoice({ rights, error, onChange }: { rights: Rights; error: Error | null; onChange: (rights: Rights) => void }) {
  return (
    <fieldset className="radios">
      <legend>Besides what all may do</legend>
      {RIGHTS.map(([key, text, about]): ReactNode => (
        <Field key={key} label={text} at={`/${key}`} error={error} hint={about}>
          {(props: FieldProps) => <input {...props} type="checkbox" checked={rights[key]} onChange={(e) => onChange({ ...rights, [key]: e.target.checked })} />}
        </Field>
      ))}
    </fieldset>
  );
}
