import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { ApiError, type Submitted, type User, askJson, isSilence } from "../api/client";
import { keys } from "../api/events";
import { EXAMPLE, EXAMPLE_IMAGE, EXAMPLE_TASK } from "../domain/example";
import { freshId } from "../domain/id";
import { Failure, Sentence } from "./basics";

/** What was missing may have come meanwhile. */
const AGAIN_MS = 15_000;

/** Why the server refuses it, each problem once. */
const why = (error: Error): string[] => (error instanceof ApiError && error.problems.length > 0 ? [...new Set(error.problems.map((one) => one.message))] : [error.message]);

/** What an account without jobs can do first. The example runs by one press, and its log opens. */
export function FirstSteps({ user }: { user: User }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  // One press is one job, even if its answer got lost and it is pressed again.
  const [requestId] = useState(freshId);
  // The server alone knows whether it would run: with a runtime that takes any image, none has to be here.
  const asked = useQuery({
    // With the images: one that came is looked for at once.
    queryKey: [...keys.images, "example", user.name],
    queryFn: ({ signal }) => askJson<Submitted>("POST", "/jobs", { query: { dry_run: true }, json: EXAMPLE, signal, quiet: true }),
    refetchInterval: ({ state }) => (state.status === "error" ? AGAIN_MS : false),
    retry: false,
  });
  const refused = asked.isError && !isSilence(asked.error) ? why(asked.error) : null;

  const run = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const headers = { "Idempotency-Key": requestId };
      const { id } = await askJson<Submitted>("POST", "/jobs", { json: EXAMPLE, headers });
      void client.invalidateQueries({ queryKey: keys.jobs });
      go(`/jobs/${id}/${EXAMPLE_TASK}`);
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };

  return (
    <section className="first-steps" aria-label="First steps">
      <p>You have no jobs yet. Three steps to begin:</p>
      <ol>
        <li>
          {asked.isSuccess ? (
            <>
              <button className="small" disabled={busy} onClick={() => void run()}>
                Run the example
              </button>{" "}
              It counts to five in <code>{EXAMPLE_IMAGE}</code>, and its log opens.
            </>
          ) : refused === null ? (
            <>Looking whether the example would run …</>
          ) : (
            <>
              The example would not run now:{" "}
              {refused.map((sentence) => (
                <span key={sentence}>
                  <Sentence text={sentence} />{" "}
                </span>
              ))}
              {refused.some((sentence) => sentence.includes(EXAMPLE_IMAGE)) && (
                <>
                  An admin can <Link href="/help/images#base-images">make</Link> this image.{" "}
                </>
              )}
              Until then go on with step 2.
            </>
          )}
          {error && <Failure error={error} />}
        </li>
        <li>
          <Link href="/images">Bring an image</Link> with the programs that you need, or take one that is there.
        </li>
        <li>
          <Link href="/files">Put your files</Link>: tasks find them in <code>/root/nfs</code>. Then{" "}
          <Link href="/submit">submit a job</Link>.
        </li>
      </ol>
      <p className="note">
        <Link href="/help/start">First steps</Link> says more.
      </p>
    </section>
  );
}
