import { useQuery } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { Link } from "wouter";

import { ApiError } from "../api/client";
import { Failure, useTitle } from "../components/basics";
import { HelpText } from "../components/help-text";
import { TOPICS, isPage } from "../domain/help";

const NONE = "There is no such page of the documentation.";

async function textOf(name: string, signal: AbortSignal): Promise<string> {
  if (!isPage(name)) throw new ApiError(NONE, 404, "not-found");
  let response: Response;
  try {
    response = await fetch(`/help/${name}.md`, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError("Headway does not answer. Check your connection, and whether the server runs.", 0, "no-service");
  }
  // An older server answers any address with the page.
  const isText = response.headers.get("Content-Type")?.startsWith("text/markdown") ?? false;
  if (response.ok && isText) return response.text();
  if (response.ok || response.status === 404) throw new ApiError(NONE, 404, "not-found");
  throw new ApiError(`The server answered ${response.status}.`, response.status, "unknown");
}

/** Whether the topics stand beside the text; the style sheet has the same width. */
const WIDE = "(min-width: 801px)";
const watched = (): MediaQueryList | null => (typeof window.matchMedia === "function" ? window.matchMedia(WIDE) : null);
const onWidth = (changed: () => void): (() => void) => {
  const list = watched();
  list?.addEventListener("change", changed);
  return () => list?.removeEventListener("change", changed);
};
const useWide = (): boolean => useSyncExternalStore(onWidth, () => watched()?.matches ?? true);

/** The documentation, from the server itself: a cluster may have no way out. */
export function Help({ name }: { name: string }) {
  const page = useQuery({ queryKey: ["help", name], queryFn: ({ signal }) => textOf(name, signal), staleTime: Infinity });
  const wide = useWide();
  useTitle(page.data?.match(/^# (.+)$/m)?.[1] ?? "Help");
  useEffect(() => {
    if (page.data === undefined) return;
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (part === null) window.scrollTo(0, 0);
    else part.scrollIntoView();
  }, [name, page.data]);
  return (
    <div className="help">
      <nav aria-label="Help">
        {/* Open where there is room beside the text; on a phone the text comes first. */}
        <details open={wide} key={String(wide)}>
          <summary>Topics</summary>
          <ul>
            {TOPICS.map((one) => {
              const [page, anchor] = one.page.split("#");
              return (
                <li key={one.topic}>
                  {page === name && anchor !== undefined ? (
                    <a href={`#${anchor}`}>{one.name}</a>
                  ) : (
                    <Link href={`/help/${one.page}`} aria-current={one.page === name ? "page" : undefined}>
                      {one.name}
                    </Link>
                  )}
                </li>
              );
            })}
          </ul>
        </details>
      </nav>
      <article>
        {page.isPending && <p>Loading …</p>}
        {page.isError && (
          <>
            <h1>Help</h1>
            {page.error instanceof ApiError && page.error.status === 404 ? (
              <p>{NONE} The list of topics has the pages for people who use Headway.</p>
            ) : (
              <Failure error={page.error} again={() => void page.refetch()} />
            )}
          </>
        )}
        {page.data !== undefined && <HelpText name={name} text={page.data} />}
      </article>
    </div>
  );
}
