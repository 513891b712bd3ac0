import { type Topic, topicOf } from "../domain/help";

/** A small “?” beside a thing: its page of the documentation, beside what is being written. */
export function HelpLink({ topic }: { topic: Topic }) {
  const { page, name } = topicOf(topic);
  return (
    <a className="help-link" href={`/help/${page}`} target="_blank" rel="noopener" title={`Help: ${name}`}>
      <span aria-hidden="true">?</span>
      <span className="hidden">Help: {name}</span>
    </a>
  );
}
