import { afterEach, describe, expect, it, vi } from "vitest";

import { type TaskSpec, api } from "../api/client";
import { endFacts } from "../domain/ends";
import { type Drawn, drawn, until } from "../testing";
import { SpecOf, commandText, specFacts } from "./task-spec";

const spec: TaskSpec = {
  name: "t",
  needs: [],
  image: "base/python:1",
  command: "python3 train.py\n",
  shell: "sh",
  entrypoint: "replace",
  env: {},
  working_dir: null,
  code: null,
  datasets: [],
  resources: { cpus: 1, memory: "2GiB", shm: "1GiB", gpus: 0, gpu_model: [], gpu_memory: null, gpu_share: null },
  ulimits: {},
  secrets: [],
  timeout: "10m",
  grace: "10s",
  retries: 0,
  user: "account",
  network: "outgoing",
  output_path: null,
  log_limit: "1GiB",
  log_limit_action: "drop",
};

let page: Drawn | undefined;
afterEach(async () => {
  await page?.close();
  page = undefined;
  vi.restoreAllMocks();
});

describe("what a task is", () => {
  it("says what was not written, too, and leaves out what says nothing", () => {
    const facts = new Map(specFacts(spec));
    expect(facts.get("Timeout")).toBe("10m, then 10s to end by itself");
    expect(facts.get("Working folder")).toBe("the image's own");
    expect(facts.has("GPUs")).toBe(false);
    expect(facts.has("Process limits")).toBe(false);
    const full = new Map(specFacts({ ...spec, needs: { a: "any" }, ulimits: { nofile: { soft: 1, hard: 2 }, memlock: "unlimited" }, secrets: ["TOKEN", { name: "W", env: "WANDB" }, { name: "KEY", file: "id_rsa" }] }));
    expect(full.get("Secrets")).toBe("TOKEN, W as WANDB, KEY as /run/secrets/id_rsa");
    expect(full.get("Needs")).toBe("a (any)");
    expect(full.get("Process limits")).toBe("nofile 1 to 2, memlock unlimited");
  });

  it("shows where one argument ends, and nothing that paints over others", () => {
    expect(commandText({ command: ["sh", "-c", "echo 'a b'"] })).toBe(`sh -c 'echo '"'"'a b'"'"''`);
    expect(commandText({ command: "a\u001b[2J\u202eb\n" })).toBe("a\ufffd[2J\ufffdb");
  });

  it("is drawn for who may see it, and is nothing for others", async () => {
    const answer = (shown: TaskSpec | null): unknown => ({ data: { spec: shown }, response: new Response() });
    vi.spyOn(api, "GET").mockResolvedValueOnce(answer({ ...spec, env: { TOKEN: "<b>x</b>" } }) as never);
    page = await drawn(<SpecOf job="j1" task="t" />);
    await until(() => expect(document.body.textContent).toContain("python3 train.py"));
    expect(document.body.textContent).toContain("TOKEN<b>x</b>");
    expect(document.querySelector("b")).toBeNull();
    await page.close();
    vi.spyOn(api, "GET").mockResolvedValueOnce(answer(null) as never);
    page = await drawn(<SpecOf job="j1" task="t" />);
    await until(() => expect(page?.client.isFetching()).toBe(0));
    expect(document.querySelector(".spec")).toBeNull();
  });

  it("ended with a code or by a signal", () => {
    expect(endFacts({ exit_code: 1, signal: null })).toBe("exit code 1");
    expect(endFacts({ exit_code: null, signal: 9 })).toBe("signal 9 (SIGKILL)");
    expect(endFacts({ exit_code: null, signal: 60 })).toBe("signal 60");
    expect(endFacts(null)).toBe("");
  });
});
