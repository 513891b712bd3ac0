import { useId } from "react";

import type { ProblemItem } from "../api/client";
import { type PairRow, withRow } from "../domain/form";
import { Fixed, Messages, aria } from "./form-field";

/** Names and values, one a line, each with its messages. */
export function PairRows({
  rows,
  words,
  shared,
  problemsAt,
  onChange,
}: {
  rows: readonly PairRow[];
  words: { readonly one: string; readonly name: string; readonly value: string; readonly names?: readonly string[] };
  /** Names that all tasks have already. */
  shared: readonly string[];
  /** Of a name; of none: of all of them. */
  problemsAt: (name?: string) => readonly ProblemItem[];
  onChange: (rows: readonly PairRow[]) => void;
}) {
  const id = useId();
  const names = words.names;
  return (
    <>
      {shared.length > 0 && <p className="note">And those of all tasks: <bdi>{shared.map((name) => name.slice(0, 60)).join(", ")}</bdi>.</p>}
      {rows.map((row, i) => {
        const problems = problemsAt(row.name);
        const at = `${id}-${i}`;
        const told = aria(problems, at);
        const cap = words.one[0]?.toUpperCase() + words.one.slice(1);
        const value = {
          "aria-label": `${cap} value`,
          placeholder: words.value,
          value: row.value,
          readOnly: row.fixed !== undefined,
          ...told,
          onChange: (e: { target: { value: string } }) => onChange(withRow(rows, i, { value: e.target.value })),
        };
        return (
          <div className={problems.length > 0 ? "fields pair wrong" : "fields pair"} key={i}>
            <input
              aria-label={`${cap} name`}
              placeholder={words.name}
              value={row.name}
              {...(names === undefined ? {} : { list: `${id}-names` })}
              {...told}
              readOnly={row.fixed !== undefined}
              onChange={(e) => onChange(withRow(rows, i, { name: e.target.value }))}
            />
            {row.value.includes("\n") ? <textarea rows={Math.min(8, row.value.split("\n").length)} spellCheck={false} {...value} /> : <input {...value} />}
            <button type="button" aria-label={`Remove ${row.name || `this ${words.one}`}`} onClick={() => onChange(rows.filter((_, j) => j !== i))}>
              ×
            </button>
            {row.fixed !== undefined && <Fixed why={row.fixed} />}
            <Messages problems={problems} id={at} />
          </div>
        );
      })}
      {names !== undefined && (
        <datalist id={`${id}-names`}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
      <button type="button" onClick={() => onChange([...rows, { name: "", value: "" }])}>
        Add a {words.one}
      </button>
      <Messages problems={problemsAt()} id={id} />
    </>
  );
}
