import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";

import { type Option, grouped, matching } from "../domain/options";
import type { Aria } from "./form-field";

/** So many are drawn: who has more types a word. */
const SHOWN = 60;

/**
 * A text field with suggestions below it: by mouse, by touch, and by the arrow keys, Enter and Escape. Any other text
 * may be typed, too.
 */
export function Combobox({
  id,
  label,
  value,
  options,
  footer,
  placeholder,
  size,
  required = false,
  autoFocus = false,
  readOnly = false,
  about = {},
  onText,
  onPick,
  onEnter,
  onBlur,
}: {
  id?: string;
  /** Where no `label` element names it. */
  label?: string;
  value: string;
  options: readonly Option[];
  /** What else may be typed. */
  footer?: string;
  placeholder?: string;
  size?: number;
  required?: boolean;
  autoFocus?: boolean;
  readOnly?: boolean;
  /** Where what is wrong with it is told. */
  about?: Aria;
  onText: (text: string) => void;
  onPick: (value: string) => void;
  /** Enter while no suggestion is marked; without it the form decides, as in any field. */
  onEnter?: () => void;
  onBlur?: () => void;
}) {
  const list = useId();
  const popup = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  // Opened by hand it shows all, whatever the field holds; the first key narrows it.
  const [typed, setTyped] = useState(false);
  const [at, setAt] = useState(-1);
  const found = open && !readOnly ? matching(options, typed ? value : "") : [];
  // In the order in which they are drawn, so that the keys go from one to the next.
  const groups = grouped(found.slice(0, SHOWN));
  const shown = groups.flatMap((group) => group.options);
  const active = at >= 0 && at < shown.length ? shown[at] : undefined;
  const idOf = (option: Option): string => `${list}-${shown.indexOf(option)}`;
  useEffect(() => {
    if (at >= 0) popup.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const close = (): void => {
    setOpen(false);
    setTyped(false);
    setAt(-1);
  };
  const pick = (option: Option): void => {
    onPick(option.value);
    close();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) {
        setOpen(true);
        return;
      }
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (shown.length > 0) setAt(at < 0 && step < 0 ? shown.length - 1 : (at + step + shown.length) % shown.length);
    } else if (event.key === "Escape" && open) {
      // Only the list goes, not the dialog around it.
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key === "Enter") {
      if (active !== undefined || onEnter !== undefined) event.preventDefault();
      if (active !== undefined) pick(active);
      else onEnter?.();
      close();
    }
  };
  const visible = open && !readOnly && (shown.length > 0 || footer !== undefined);
  return (
    <span className="combobox">
      <input
        id={id}
        role="combobox"
        aria-label={label}
        aria-expanded={visible}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={active === undefined ? undefined : idOf(active)}
        value={value}
        placeholder={placeholder}
        size={size}
        required={required}
        readOnly={readOnly}
        {...about}
        autoFocus={autoFocus}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        onChange={(e) => {
          onText(e.target.value);
          setOpen(true);
          setTyped(true);
          setAt(-1);
        }}
        onClick={() => setOpen(true)}
        onKeyDown={press}
        onBlur={() => {
          close();
          onBlur?.();
        }}
      />
      {visible && (
        // The field keeps the focus: a press on the list must not take it, or the list would close before the click.
        <div className="suggestions" ref={popup} onMouseDown={(e) => e.preventDefault()}>
          <div role="listbox" id={list} aria-label={label ?? "Suggestions"}>
            {groups.map((group) => (
              <div key={group.name} role="group" aria-label={group.name}>
                <p className="group" aria-hidden="true">
                  {group.name}
                </p>
                {group.options.map((option) => (
                  <div
                    key={option.value}
                    id={idOf(option)}
                    role="option"
                    aria-selected={option === active}
                    aria-label={option.value}
                    data-option={option.value}
                    onClick={() => pick(option)}
                  >
                    <span>{option.value}</span>
                    {option.note && <small className="note">{option.note}</small>}
                  </div>
                ))}
              </div>
            ))}
          </div>
          {found.length > SHOWN && <p className="more">and {found.length - SHOWN} more. Type a part of the name to find them.</p>}
          {footer && <p className="more">{found.length === 0 && typed ? `Nothing here has that name. ${footer}` : footer}</p>}
        </div>
      )}
    </span>
  );
}
