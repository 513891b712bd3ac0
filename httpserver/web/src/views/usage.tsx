import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";

import { type User, api, body } from "../api/client";
import type { components } from "../api/generated/schema";
import { Empty, useTitle } from "../components/basics";
import { Trouble } from "../components/kept-answer";
import { span } from "../domain/format";

type Usage = components["schemas"]["Usage"];
type Sums = components["schemas"]["UsageSums"];
type Row = components["schemas"]["UsageRow"];
type By = Usage["by"];

const words: Record<By, string> = { day: "day", job: "job", user: "user", group: "group", node: "machine" };
const spans: Record<string, string> = { "7d": "7 days", "30d": "30 days", "90d": "90 days", "365d": "year" };
const MOST_ROWS = 400;

export function UsageView({ user }: { user: User }) {
  useTitle("Usage");
  const [by, setBy] = useState<By>("day");
  const [from, setFrom] = useState("30d");
  const [mine, setMine] = useState(true);
  // Sums of users and groups have others in them.
  const own = mine && by !== "user" && by !== "group";
  const usage = useQuery({
    queryKey: ["usage", by, from, own],
    queryFn: async () =>
      (await body(
        api.GET("/api/v1/usage", { params: { query: { by, from, limit: MOST_ROWS, ...(own ? { user: "me" } : {}) } } }),
      )) as Usage,
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });
  return (
    <>
      <div className="title-row">
        <h1>Usage</h1>
        <div className="filters">
          <label>
            Of the last{" "}
            <select aria-label="Of the last" value={from} onChange={(e) => setFrom(e.target.value)}>
              {Object.entries(spans).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            by{" "}
            <select aria-label="Rows by" value={by} onChange={(e) => setBy(e.target.value as By)}>
              {Object.entries(words).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            <input type="checkbox" checked={own} disabled={by === "user" || by === "group"} onChange={(e) => setMine(e.target.checked)} />{" "}
            only mine
          </label>
        </div>
      </div>
      <p className="facts">
        Hours count from when a task gets its CPUs, memory and GPUs until they are free again. Days are UTC days. Your past runs as{" "}
        <a href={`/api/v1/usage/trace?from=${from}`} download="trace.csv">
          a trace
        </a>{" "}
        for “headway simulate”.
      </p>
      {usage.isPending && <p>Loading …</p>}
      <Trouble of={usage} />
      {usage.data && <Rows usage={usage.data} user={user} />}
    </>
  );
}

function Rows({ usage, user }: { usage: Usage; user: User }) {
  const { by, rows, rows_in_all, total } = usage;
  if (total.attempts === 0) {
    return <Empty>{usage.user === user.name ? "Nothing of yours ran in this time." : "Nothing ran in this time."}</Empty>;
  }
  return (
    <>
      <div className="scroll">
        <table className="wide" aria-label={`Usage by ${words[by]}`}>
          <thead>
            <tr>
              <th>{words[by].replace(/^./, (first) => first.toUpperCase())}</th>
              <th>GPU hours</th>
              <th>CPU hours</th>
              <th>Memory, GiB hours</th>
              <th>Tasks</th>
              <th>Attempts</th>
              <th title="Attempts that ended at their timeout">Timed out</th>
              <th title="Average time from queued to started">Waited</th>
              <th title="Timeouts book GPU time: this share of it was used. Tasks that were cancelled or lost do not count.">
                Booked time used
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key}>
                <td className="name">
                  <Name by={by} row={row} />
                </td>
                <Cells sums={row} />
              </tr>
            ))}
            {rows_in_all > 1 && (
              <tr>
                <td className="name">
                  <strong>Total</strong>
                </td>
                <Cells sums={total} />
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {rows.length < rows_in_all && (
        <p className="facts">
          Only the {rows.length} rows with the most GPU time are shown, of {rows_in_all}.
        </p>
      )}
    </>
  );
}

function Name({ by, row }: { by: By; row: Row }) {
  if (by !== "job") return row.key || "(in no group)";
  if (row.key === "") return row.job_name;
  return (
    <>
      <Link href={`/jobs/${row.key}`}>{row.job_name}</Link> {row.owner}
    </>
  );
}

function Cells({ sums }: { sums: Sums }) {
  const cells: [string, string][] = [
    ["GPU hours", hours(sums.gpu_hours)],
    ["CPU hours", hours(sums.cpu_hours)],
    ["memory GiB hours", hours(sums.memory_gib_hours)],
    ["tasks", String(sums.tasks)],
    ["attempts", String(sums.attempts)],
    ["timed out", String(sums.timed_out)],
    ["waited", span(sums.mean_wait_s)],
    ["booked time used", sums.booked_used === null ? "–" : `${Math.round(100 * sums.booked_used)} %`],
  ];
  return cells.map(([label, text]) => (
    <td className="number" data-label={label} key={label}>
      {text}
    </td>
  ));
}

/** Minutes are seen, months are not told to the minute. */
function hours(value: number): string {
  const digits = value >= 100 || value === 0 ? 0 : value >= 1 ? 1 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
