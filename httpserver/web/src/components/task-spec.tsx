import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { Link } from "wouter";

import { type TaskSpec, api, body } from "../api/client";
import { keys } from "../api/events";
import type { Topic } from "../domain/help";
import { HelpLink } from "./help-link";
import { Trouble } from "./kept-answer";

const HELP: { readonly [name: string]: Topic } = {
  Image: "image",
  Memory: "memory",
  GPUs: "gpu-task",
  Timeout: "timeout",
  Retries: "retries",
  Code: "code",
  Datasets: "data",
  Network: "network",
  "Runs as": "task",
};

/** `TOKEN`, `KEY as /run/secrets/id_rsa`. */
const secret = (use: TaskSpec["secrets"][number]): string =>
  typeof use === "string" ? use : `${use["name"] ?? ""} as ${use["file"] === undefined ? (use["env"] ?? "") : `/run/secrets/${use["file"]}`}`;
type Ulimit = TaskSpec["ulimits"][string];

const limit = (value: Ulimit): string => (typeof value === "object" ? `${value["soft"]} to ${value["hard"]}` : String(value));

/** An argument as a shell would take it, so that blanks within it are seen. */
const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

/** What would paint over its neighbours or turn them round is seen as what it is. */
const plain = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

/** The command as it would be typed. */
export const commandText = (spec: Pick<TaskSpec, "command">): string =>
  plain(typeof spec.command === "string" ? spec.command.trimEnd() : spec.command.map(quoted).join(" "));

/** What was submitted of a task, in the words of a job file: name and value of each field but command and environment. */
export function specFacts(spec: TaskSpec): readonly (readonly [string, ReactNode])[] {
  const { resources: asked, needs } = spec;
  const needed = Array.isArray(needs) ? needs : Object.entries(needs).map(([task, on]) => `${task} (${on})`);
  const gpus = [
    String(asked.gpus),
    asked.gpu_model.length > 0 ? `of model ${[asked.gpu_model].flat().join(" or ")}` : "",
    asked.gpu_memory === null ? "" : `with ${asked.gpu_memory} each at least`,
  ];
  if (spec.image === "") {
    // `headway gpu run`
    return [
      ["Runs", "on the machine itself, without a container"],
      ["GPUs", gpus.filter(Boolean).join(" ")],
      ["Timeout", `${spec.timeout}, then ${spec.grace} to end by itself`],
    ];
  }
  const folder = spec.working_dir ?? (spec.code === null ? "the image's own" : "/root/code");
  const facts: (readonly [string, ReactNode])[] = [
    ["Image", spec.entrypoint === "replace" ? spec.image : `${spec.image}; its entrypoint gets the command`],
    ["Needs", needed.join(", ")],
    ["CPUs", String(asked.cpus)],
    ["Memory", `${asked.memory}, of which ${asked.shm} at most in /dev/shm`],
    ["GPUs", asked.gpus > 0 ? gpus.filter(Boolean).join(" ") : ""],
    ["Share of a GPU", asked.gpu_share ? [asked.gpu_share, ...gpus.slice(1)].filter(Boolean).join(" ") : ""],
    ["Timeout", `${spec.timeout}, then ${spec.grace} to end by itself`],
    ["Retries", spec.retries === 0 ? "none" : String(spec.retries)],
    ["Process limits", Object.entries(spec.ulimits).map(([name, value]) => `${name} ${limit(value)}`).join(", ")],
    ["Size of its log", `${spec.log_limit}; more is ${spec.log_limit_action === "drop" ? "dropped" : "the end of the task"}`],
    ["Working folder", folder],
    ["Secrets", spec.secrets.map(secret).join(", ")],
    ["Code", spec.code === null ? "" : `${spec.code} at /root/code`],
    [
      "Datasets",
      spec.datasets.length > 0 &&
        spec.datasets.map((name) => (
          <div key={name}>
            <Link href={`/datasets/${name.split("@")[0] ?? ""}`}>{name}</Link> at /root/datasets/{name.split("@")[0]}
          </div>
        )),
    ],
    ["Output also to", spec.output_path === null ? "" : `${spec.output_path} in your files`],
    ["Network", spec.network === "none" ? "none" : spec.network === "job" ? "the world, and tasks of this job" : "the world, but no other task"],
    ["Runs as", spec.user === "account" ? "your account" : "the image's user"],
  ];
  return facts.filter(([, value]) => Boolean(value));
}

/** Command, environment, limits and folders of a task; for its owner and admins. */
export function SpecOf({ job, task }: { job: string; task: string }) {
  const spec = useQuery({
    queryKey: keys.spec(job, task),
    staleTime: Infinity, // it never changes
    queryFn: async () => (await body(api.GET("/api/v1/jobs/{job}/tasks/{task}", { params: { path: { job, task } } })))?.spec ?? null,
  });
  if (!spec.data) return <Trouble of={spec} />;
  const env = Object.entries(spec.data.env);
  return (
    <section className="spec" aria-label="What it runs">
      <h3>What it runs</h3>
      <p className="facts">
        {typeof spec.data.command === "string" ? `A script for ${spec.data.shell === "bash" ? "bash -e -o pipefail" : "sh -e"}` : "A program and its arguments"}
      </p>
      <pre className="lines" tabIndex={0} aria-label="Command">
        {commandText(spec.data)}
      </pre>
      {env.length > 0 && (
        <details>
          <summary>
            Environment: {env.length} {env.length === 1 ? "variable" : "variables"}
          </summary>
          <dl className="facts-list env-list">
            {env.map(([name, value]) => (
              <div key={name}>
                <dt>
                  <code>{plain(name)}</code>
                </dt>
                <dd>
                  <code>{plain(value)}</code>
                </dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      <dl className="facts-list">
        {specFacts(spec.data).map(([name, value]) => (
          <div key={name}>
            <dt>
              {name}
              {HELP[name] && <HelpLink topic={HELP[name]} />}
            </dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
