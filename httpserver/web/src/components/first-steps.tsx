import { useIsFetching, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";

import { type Submitted, type User, askJson } from "../api/client";
import { keys } from "../api/events";
import { useSuggestions } from "../api/suggestions";
import { EXAMPLE, EXAMPLE_IMAGE, EXAMPLE_TASK } from "../domain/example";
import { freshId } from "../domain/id";
import { Failure } from "./basics";

/** What an account without jobs can do first. The example runs by one press, and its log opens. */
export function FirstSteps({ user }: { user: User }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  // One press is one job, even if its answer got lost and it is pressed again.
  const [requestId] = useState(freshId);
  const images = useSuggestions(user.name, EXAMPLE_IMAGE).images;
  const looking = useIsFetching({ queryKey: keys.images }) > 0;
  const isThere = images.some((image) => image.value === EXAMPLE_IMAGE);

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
          {isThere ? (
            <>
              <button className="small" disabled={busy} onClick={() => void run()}>
                Run the example
              </button>{" "}
              It counts to five in <code>{EXAMPLE_IMAGE}</code>, and its log opens.
            </>
          ) : looking ? (
            <>Looking for the image of the example …</>
          ) : (
            <>
              The example needs the image <code>{EXAMPLE_IMAGE}</code>, which is not here. An admin can{" "}
              <Link href="/help/images#base-images">make it</Link>. Until then go on with step 2.
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
