import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { type User, api, body } from "../api/client";
import type { components } from "../api/generated/schema";
import { SortHead, useAddress } from "../components/address";
import { Empty, useTitle } from "../components/basics";
import { Trouble } from "../components/kept-answer";
import { wordIn } from "../domain/address";
import { span } from "../domain/format";
import { sortIn, sorted } from "../domain/sort";

type Usage = components["schemas"]["Usage"];
type Sums = components["schemas"]["UsageSums"];
type Row = components["schemas"]["UsageRow"];
type By = Usage["by"];

const words: Record<By, string> = { day: "day", job: "job", user: "user", group: "group", node: "machine" };
const spans: Record<string, string> = { "7d": "7 days", "30d": "30 days", "90d": "90 days", "365d": "year" };
const MOST_ROWS = 400;

export function UsageView({ user }: { user: User }) {
  useTitle("Usage");
  const [given, change] = useAddress();
  const by = wordIn(given.get("by"), Object.keys(words) as By[], "day");
  const from = wordIn(given.get("from"), Object.keys(spans), "30d");
  const mine = given.get("of") !== "all";
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
            <select aria-label="Of the last" value={from} onChange={(e) => change({ from: e.target.value })}>
              {Object.entries(spans).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            by{" "}
            <select aria-label="Rows by" value={by} onChange={(e) => change({ by: e.target.value, sort: null })}>
              {Object.entries(words).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            <input type="checkbox" checked={own} disabled={by === "user" || by === "group"} onChange={(e) => change({ of: e.target.checked ? null : "all" })} />{" "}
            only mine
          </label>
        </div>
      </div>
      <p className="facts">
        Hours count from when a task gets its CPUs, memory and GPUs until they are free again. Days are UTC days. Your past runs as{" "}
        <a href={`/api/v1/usage/trace?from=${from}`} download="trace.csv">
          a trace
        </a>{" "}
        for “headway simulate”; these numbers as{" "}
        <a href={`/api/v1/usage?format=csv&by=${by}&from=${from}${own ? "&user=me" : ""}`} download="usage.csv">
          CSV
        </a>
        .
      </p>
      {usage.isPending && <p>Loading …</p>}
      <Trouble of={usage} />
      {usage.data && <Rows usage={usage.data} user={user} />}
    </>
  );
}

const COLUMNS = ["key", "gpu", "wasted", "cpu", "memory", "tasks", "attempts", "timed_out", "waited", "used"] as const;
const values = {
  key: (row: Row) => row.job_name || row.key,
  gpu: (row: Row) => row.gpu_hours,
  wasted: (row: Row) => row.wasted_gpu_hours,
  cpu: (row: Row) => row.cpu_hours,
  memory: (row: Row) => row.memory_gib_hours,
  tasks: (row: Row) => row.tasks,
  attempts: (row: Row) => row.attempts,
  timed_out: (row: Row) => row.timed_out,
  waited: (row: Row) => row.mean_wait_s,
  used: (row: Row) => row.booked_used,
};

function Rows({ usage, user }: { usage: Usage; user: User }) {
  const [given, change] = useAddress();
  const { by, rows_in_all, total } = usage;
  const sort = sortIn(given.get("sort"), COLUMNS);
  const whole = usage.rows.length >= rows_in_all;
  const rows = whole ? sorted(usage.rows, sort, values) : usage.rows;
  const head = { sort, onSort: (next: string | null) => change({ sort: next }), off: whole ? "" : "Only rows that are all shown can be sorted: choose a shorter time." };
  if (total.attempts === 0) {
    return <Empty>{usage.user === user.name ? "Nothing of yours ran in this time." : "Nothing ran in this time."}</Empty>;
  }
  return (
    <>
      <div className="scroll">
        <table className="wide" aria-label={`Usage by ${words[by]}`}>
          <thead>
            <tr>
              <SortHead by="key" {...head}>
                {words[by].replace(/^./, (first) => first.toUpperCase())}
              </SortHead>
              <SortHead by="gpu" down {...head}>
                GPU hours
              </SortHead>
              <SortHead
                by="wasted"
                down
                title="Of the GPU hours: tasks that failed, were lost, or ran into their timeout or memory, and what all others left idle"
                {...head}
              >
                Wasted
              </SortHead>
              <SortHead by="cpu" down {...head}>
                CPU hours
              </SortHead>
              <SortHead by="memory" down {...head}>
                Memory, GiB hours
              </SortHead>
              <SortHead by="tasks" down {...head}>
                Tasks
              </SortHead>
              <SortHead by="attempts" down {...head}>
                Attempts
              </SortHead>
              <SortHead by="timed_out" down title="Attempts that ended at their timeout" {...head}>
                Timed out
              </SortHead>
              <SortHead by="waited" down title="Average time from queued to started" {...head}>
                Waited
              </SortHead>
              <SortHead
                by="used"
                down
                title="Timeouts book GPU time: this share of it was used. Tasks that were cancelled or lost do not count."
                {...head}
              >
                Booked time used
              </SortHead>
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
    ["wasted GPU hours", hours(sums.wasted_gpu_hours)],
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
