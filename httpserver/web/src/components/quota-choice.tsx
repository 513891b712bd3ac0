import { useId } from "react";

import { AS_CONFIGURED, NO_LIMIT, NO_LIMIT_CHOICE, quotaBytes, quotaText } from "../domain/quota";
import { Field } from "./field";

export type QuotaKind = "configured" | "none" | "size";

export interface QuotaState {
  readonly kind: QuotaKind;
  readonly text: string;
}

export const quotaState = (bytes: number | null): QuotaState =>
  bytes === null ? { kind: "configured", text: "" } : bytes === NO_LIMIT ? { kind: "none", text: "" } : { kind: "size", text: quotaText(bytes) };

/** What the server takes, or what is wrong with what was typed. */
export function quotaWanted({ kind, text }: QuotaState): number | string {
  if (kind === "configured") return AS_CONFIGURED;
  return kind === "none" ? NO_LIMIT : quotaBytes(text);
}

/** How much a personal space may hold. `tried`: from now on it says what is wrong. */
export function QuotaChoice({
  state,
  error,
  tried,
  onChange,
}: {
  state: QuotaState;
  error: Error | null;
  tried: boolean;
  onChange: (state: QuotaState) => void;
}) {
  const group = useId();
  const wanted = quotaWanted(state);
  const choice = (kind: QuotaKind, text: string) => (
    <label>
      <input type="radio" name={group} checked={state.kind === kind} onChange={() => onChange({ ...state, kind })} />
      {text}
    </label>
  );
  return (
    <fieldset className="radios">
      <legend>The personal space may hold</legend>
      {choice("configured", "what is configured for all")}
      {choice("none", NO_LIMIT_CHOICE)}
      {choice("size", "this much:")}
      {state.kind === "size" && (
        <Field label="Quota" at="/quota_bytes" error={error} wrong={tried && typeof wanted === "string" ? wanted : ""} hint="For instance 50GiB or 1TB.">
          {(props) => (
            <input
              {...props}
              value={state.text}
              size={12}
              autoFocus
              autoComplete="off"
              spellCheck={false}
              onChange={(e) => onChange({ ...state, text: e.target.value })}
            />
          )}
        </Field>
      )}
    </fieldset>
  );
}
