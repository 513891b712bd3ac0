import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { api, body } from "../api/client";
import type { components } from "../api/generated/schema";
import { SearchField, useAddress } from "../components/address";
import { Empty, State, useNow, useTitle } from "../components/basics";
import { Trouble } from "../components/kept-answer";
import { moment } from "../domain/format";
import { visible } from "../domain/paths";
import { wordIn } from "../domain/address";

type Entry = components["schemas"]["AuditEntry"];

const FAMILIES: Record<string, string> = {
  "": "anything",
  session: "sign-ins and sessions",
  account: "accounts",
  token: "tokens",
  group: "groups",
  job: "jobs",
  node: "machines",
  queue: "the queue",
  file: "files",
  upload: "uploads",
  image: "images",
  dataset: "datasets",
  code: "code",
  registry: "registries",
};
const OUTCOMES: Record<string, string> = { "": "any outcome", done: "done", refused: "refused", failed: "failed", unknown: "not known" };
const SPANS: Record<string, string> = { "1d": "day", "7d": "7 days", "30d": "30 days", "365d": "year" };
const AT_ONCE = 100;

const tones = { done: "good", refused: "wait", failed: "bad", unknown: "bad", under_way: "live" } as const;
const outcomeWords: Record<string, string> = { unknown: "not known", under_way: "under way" };

/** Who changed what, for admins. */
export function Audit() {
  useTitle("Audit log");
  const [given, change] = useAddress();
  const who = given.get("who") ?? "";
  const subject = given.get("on") ?? "";
  const what = wordIn(given.get("what"), Object.keys(FAMILIES), "");
  const outcome = wordIn(given.get("outcome"), Object.keys(OUTCOMES), "");
  const since = wordIn(given.get("since"), Object.keys(SPANS), "7d");
  const now = useNow(60_000);
  const list = useInfiniteQuery({
    queryKey: ["audit", who, what, subject, outcome, since],
    queryFn: async ({ pageParam }) =>
      await body(api.GET("/api/v1/audit", { params: { query: { who, what, subject, outcome, since, before: pageParam, limit: AT_ONCE } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.cursor || undefined,
    placeholderData: keepPreviousData,
  });
  const rows = list.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <>
      <p>
        <Link href="/accounts">All accounts</Link>
      </p>
      <div className="title-row">
        <h1>Audit log</h1>
        <div className="filters">
          <SearchField label="Who" placeholder="Who" value={who} onText={(text) => change({ who: text || null }, { typed: true })} />
          <SearchField label="On what" placeholder="On what" value={subject} onText={(text) => change({ on: text || null }, { typed: true })} />
          <Choice label="What" words={FAMILIES} value={what} onChoice={(value) => change({ what: value || null })} />
          <Choice label="Outcome" words={OUTCOMES} value={outcome} onChoice={(value) => change({ outcome: value || null })} />
          <label>
            of the last <Choice label="Of the last" words={SPANS} value={since} onChoice={(value) => change({ since: value })} />
          </label>
        </div>
      </div>
      <Trouble of={list} />
      {list.isPending && <p>Loading …</p>}
      {list.isSuccess && rows.length === 0 && <Empty>Nothing of this kind was asked in this time.</Empty>}
      {rows.length > 0 && <Rows rows={rows} now={now} />}
      {list.hasNextPage && (
        <button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
          More
        </button>
      )}
    </>
  );
}

function Choice({ label, words, value, onChoice }: { label: string; words: Record<string, string>; value: string; onChoice: (value: string) => void }) {
  return (
    <select aria-label={label} value={value} onChange={(e) => onChoice(e.target.value)}>
      {Object.entries(words).map(([word, text]) => (
        <option key={word} value={word}>
          {text}
        </option>
      ))}
    </select>
  );
}

function Rows({ rows, now }: { rows: readonly Entry[]; now: number }) {
  return (
    <div className="scroll" tabIndex={0} role="group" aria-label="What was done">
      <table className="wide" aria-label="Audit log">
        <thead>
          <tr>
            <th>When</th>
            <th>Who</th>
            <th>From</th>
            <th>What</th>
            <th>On what</th>
            <th>Outcome</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.number}>
              <td className="number" data-label="when">
                {moment(row.at, now)}
              </td>
              <td data-label="who" title={row.way}>
                {visible(row.who) || (row.address ? "nobody" : row.way)}
              </td>
              <td data-label="from">{visible(row.address) || "–"}</td>
              <td data-label="what">{row.word}</td>
              <td data-label="on what" title={row.detail ? visible(row.detail) : undefined}>
                {visible(row.subject)}
              </td>
              <td data-label="outcome" title={`Request ${row.request_id}`}>
                <State state={outcomeWords[row.outcome] ?? row.outcome} tone={tones[row.outcome as keyof typeof tones] ?? "wait"} />
                {row.problem && <span className="note"> {row.problem}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
