import { Children, type ReactNode, isValidElement, useMemo } from "react";
import type { Components } from "react-markdown";
import { Link } from "wouter";

import { linkOf, slug } from "../domain/help";
import Markdown, { parts } from "./markdown";

const wordsOf = (node: ReactNode): string =>
  Children.toArray(node)
    .map((one) => (isValidElement<{ children?: ReactNode }>(one) ? wordsOf(one.props.children) : String(one)))
    .join("");

/** The parts of the documentation's page `name`: headings have addresses, and its links stay within Headway. */
function partsOf(name: string): Components {
  return {
    ...parts,
    a: ({ href = "", children }) => {
      const to = linkOf(name, href);
      // In the source code a page is told by its file.
      if (to !== null && wordsOf(children).endsWith(".md")) return <Link href={to}>{wordsOf(children).slice(0, -3)}</Link>;
      if (to !== null) return to.startsWith("#") ? <a href={to}>{children}</a> : <Link href={to}>{children}</Link>;
      // What lies in the source code alone has no address here.
      if (!/^https?:/i.test(href)) return <span>{children}</span>;
      return (
        <a href={href} rel="noopener noreferrer" target="_blank">
          {children}
        </a>
      );
    },
    h1: ({ children }) => <h1>{children}</h1>,
    h2: ({ children }) => <h2 id={slug(wordsOf(children))}>{children}</h2>,
    h3: ({ children }) => <h3 id={slug(wordsOf(children))}>{children}</h3>,
    h4: ({ children }) => <h4 id={slug(wordsOf(children))}>{children}</h4>,
    // Both may be wider than the window; keys reach what is beyond its edge.
    table: ({ children }) => (
      <div className="scroll" tabIndex={0} role="group" aria-label="Table">
        <table>{children}</table>
      </div>
    ),
    pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
  };
}

/** A page of the documentation. */
export function HelpText({ name, text }: { name: string; text: string }) {
  const own = useMemo(() => partsOf(name), [name]);
  return <Markdown text={text} own={own} quiet />;
}
