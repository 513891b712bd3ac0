import { useId } from "react";

/** Names that are chosen, and what is typed of the next one. */
export interface NamesState {
  readonly names: readonly string[];
  readonly text: string;
}

/** With what is typed but not added yet: whoever types a name and presses Save means it. */
export function allNames({ names, text }: NamesState): string[] {
  const typed = text.split(/[\s,]+/).filter((name) => name && !names.includes(name));
  return [...names, ...new Set(typed)];
}

/** A list of names that grows by typing and shrinks by a click. */
export function Names({
  label,
  hint,
  without,
  state,
  known,
  onChange,
}: {
  label: string;
  hint: string;
  /** What taking `name` off the list is called. */
  without: (name: string) => string;
  state: NamesState;
  known: readonly string[];
  onChange: (state: NamesState) => void;
}) {
  const list = useId();
  const field = useId();
  const add = (): void => onChange({ names: allNames(state), text: "" });
  return (
    <div className="names">
      <label htmlFor={field}>{label}</label>
      <span className="with-button">
        <input
          id={field}
          value={state.text}
          list={list}
          placeholder={hint}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          onChange={(e) => onChange({ ...state, text: e.target.value })}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || state.text.trim() === "") return;
            e.preventDefault();
            add();
          }}
        />
        <button type="button" onClick={add} disabled={!state.text.trim()} aria-label={`Add to ${label.toLowerCase()}`}>
          Add
        </button>
      </span>
      <datalist id={list}>
        {known
          .filter((name) => !state.names.includes(name))
          .map((name) => (
            <option key={name} value={name} />
          ))}
      </datalist>
      <div className="chips">
        {state.names.map((name) => (
          <span className="chip" key={name}>
            {name}
            <button
              type="button"
              aria-label={without(name)}
              onClick={() => onChange({ ...state, names: state.names.filter((n) => n !== name) })}
            >
              ×
            </button>
          </span>
        ))}
      </div>
    </div>
  );
}
