import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

const OUT = /^(https?:|mailto:)/i;

// Pictures of other servers would tell them who reads this, and the content policy refuses them: their words stay. So do
// the words of links that lead nowhere (`javascript:` and its like) or to a part of Headway that the reader did not ask for.
export const parts: Components = {
  a: ({ href = "", id, children }) =>
    OUT.test(href) ? (
      <a href={href} rel="noopener noreferrer nofollow" target="_blank" title={href}>
        {children}
      </a>
    ) : href.startsWith("#user-content-") ? (
      <a href={href} id={id}>
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  img: ({ alt }) => <span className="note">[picture{alt ? `: ${alt}` : ""}]</span>,
  h1: ({ children }) => <h2>{children}</h2>,
  h2: ({ children }) => <h2>{children}</h2>,
};

/**
 * What somebody wrote, as Markdown; markup in it stays text, and only http, https and mailto links lead anywhere.
 *
 * `own` shows some parts in another way; with `quiet` markup and comments, which are for who writes the text, are left out.
 */
export default function Markdown({ text, own, quiet = false }: { text: string; own?: Components; quiet?: boolean }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} skipHtml={quiet} components={own ?? parts}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
