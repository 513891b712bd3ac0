import { Component, type ReactNode, useEffect, useState } from "react";

/** The address of the script with which the page began, in a page's text. */
const entryOf = (html: string): string | null => /<script[^>]*\ssrc="([^"]+)"/.exec(html)?.[1] ?? null;

/** Whether the server has another page by now than the one that is open; null: it does not answer. */
export async function isUpdated(): Promise<boolean | null> {
  const own = document.querySelector("script[type=module][src]")?.getAttribute("src") ?? null;
  try {
    const response = await fetch("/", { cache: "no-store" });
    return response.ok ? entryOf(await response.text()) !== own : null;
  } catch {
    return null;
  }
}

interface Props {
  /** The address: another one is another try. */
  readonly at: string;
  readonly children: ReactNode;
}

/** What stands in place of a view that failed: all else of the page goes on. */
export class BrokenPart extends Component<Props, { readonly error: Error | null }> {
  override readonly state: { readonly error: Error | null } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidUpdate(before: Props): void {
    if (this.state.error !== null && before.at !== this.props.at) this.setState({ error: null });
  }

  override render(): ReactNode {
    return this.state.error === null ? this.props.children : <Told error={this.state.error} />;
  }
}

function Told({ error }: { error: Error }) {
  const [updated, setUpdated] = useState<boolean | null | undefined>(undefined);
  useEffect(() => {
    void isUpdated().then(setUpdated);
  }, []);
  if (updated === undefined) return <p>Loading …</p>;
  return (
    <section className="broken-part" role="alert">
      <h1>{updated ? "Headway was updated" : "This part of the page could not be shown"}</h1>
      {updated === true && <p>This tab still has the page from before. Reload it to go on. What you typed for a job is kept.</p>}
      {updated === false && <p>Reload the page. If that does not help, tell an admin: {error.message}</p>}
      {updated === null && <p>Headway does not answer. Check your connection, then reload the page.</p>}
      <p>
        <button className="main" onClick={() => location.reload()}>
          Reload
        </button>
      </p>
    </section>
  );
}
