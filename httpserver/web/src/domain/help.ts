/** The documentation as the page shows it: which page has what, and where the links of a page lead. */

/** What a small "?" leads to; the command line's list is headway/cli/topics.py. */
export const TOPICS = [
  { topic: "start", page: "start", name: "First steps" },
  { topic: "timeout", page: "start#timeout", name: "Timeouts" },
  { topic: "priority", page: "start#priority", name: "Priorities" },
  { topic: "memory", page: "start#cpus-and-memory", name: "CPUs and memory" },
  { topic: "gpu-task", page: "start#gpus", name: "GPUs" },
  { topic: "image", page: "start#images", name: "Images" },
  { topic: "data", page: "start#datasets", name: "Datasets" },
  { topic: "code", page: "start#code", name: "Code that goes along" },
  { topic: "secret", page: "start#secrets", name: "Secrets" },
  { topic: "retries", page: "start#retries", name: "Retries" },
  { topic: "network", page: "networks", name: "What tasks reach over the network" },
  { topic: "task", page: "what-a-task-may", name: "What a task may read, write and run" },
  { topic: "signals", page: "signals", name: "How a task is told to end" },
  { topic: "waiting", page: "start#why-it-waits", name: "Why a task waits" },
  { topic: "order", page: "scheduling", name: "The order of the queue" },
  { topic: "promise", page: "scheduling#promised-start", name: "Promised starts" },
  { topic: "retention", page: "retention", name: "How long things are kept" },
  { topic: "job-file", page: "job-file", name: "The job file" },
  { topic: "states", page: "states", name: "States and ends" },
  { topic: "words", page: "glossary", name: "Glossary" },
] as const;

export type Topic = (typeof TOPICS)[number]["topic"];

export const topicOf = (topic: Topic): (typeof TOPICS)[number] => TOPICS.find((one) => one.topic === topic) ?? TOPICS[0];

/** A heading's anchor, as GitHub makes it. */
export const slug = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\- ]/gu, "")
    .replaceAll(" ", "-");

const NAME = /^(?:[\w-]+\/)*[\w-]+$/;

/** Whether an address can be that of a page; what is below another one or anywhere else is none. */
export const isPage = (name: string): boolean => NAME.test(name);

/** Where a link on the page `from` leads: an address of this server, or null where it leaves the documentation. */
export function linkOf(from: string, href: string): string | null {
  if (href.startsWith("#")) return href;
  const [path = "", anchor] = href.split("#", 2);
  if (!path.endsWith(".md") || /^[a-z]+:|^\//i.test(path)) return null;
  const way = from.split("/").slice(0, -1);
  for (const part of path.slice(0, -".md".length).split("/")) {
    if (part === "..") {
      if (way.pop() === undefined) return null;
    } else if (part !== ".") way.push(part);
  }
  const name = way.join("/");
  return isPage(name) ? `/help/${name}${anchor === undefined ? "" : `#${anchor}`}` : null;
}
