import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

// Pictures of other servers would tell them who reads this, and the content policy refuses them: their words stay.
const parts: Components = {
  a: ({ href, children }) => (
    <a href={href} rel="noopener noreferrer nofollow" target="_blank">
      {children}
    </a>
  ),
  img: ({ alt }) => <span className="note">[picture{alt ? `: ${alt}` : ""}]</span>,
  h1: ({ children }) => <h3>{children}</h3>,
  h2: ({ children }) => <h3>{children}</h3>,
};

/** What somebody wrote, as Markdown; markup in it stays text, and only http, https and mailto links lead anywhere. */
export default function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={parts}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
