/** Files and folders on their way into the personal space: few at once, large ones resumable. */
import { freshId } from "../domain/id";
import { encodePath, join } from "../domain/paths";
import { Rate } from "../domain/rate";
import { ApiError } from "./client";
import { spaces } from "./spaces";
import { Store } from "./store";
import { type Sending, findBegun, send, uploads } from "./uploads";

/** From here on a file is worth resuming. */
export const LARGE_BYTES = 8 << 20;
const AT_ONCE = 4;
const RETRY_MS = [500, 1000, 2000, 4000, ...Array<number>(30).fill(5000)];

export interface Item {
  /** Below the folder that was open, plain text with slashes. */
  readonly path: string;
  readonly file: File;
}

export interface Refused {
  readonly item: Item;
  readonly sentence: string;
}

export interface Batch {
  readonly key: string;
  /** Encoded. */
  readonly folder: string;
  readonly files: number;
  readonly done: number;
  readonly bytes: number;
  readonly sent: number;
  readonly perSecond: number | null;
  readonly state: "sending" | "paused" | "ended";
  readonly trouble: string;
  readonly active: readonly string[];
  /** Something of that name is there already. */
  readonly taken: readonly Item[];
  readonly failed: readonly Refused[];
}

export const batches = new Store<readonly Batch[]>([]);
const runners = new Map<string, Runner>();

/** Raised inside, when a file must wait rather than fail. */
class Halted extends Error {}

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Halted());
    });
  });

class Runner {
  private queue: { readonly item: Item; readonly overwrite: boolean }[] = [];
  private readonly partly = new Map<string, number>();
  private readonly rate = new Rate();
  private finished = 0;
  private stop = new AbortController();
  private working = 0;
  asleep = false;

  constructor(
    private readonly account: string,
    private readonly key: string,
    private readonly onFile: (folder: string) => void,
  ) {}

  private get batch(): Batch {
    const found = batches.value.find((b) => b.key === this.key);
    if (found === undefined) throw new Halted();
    return found;
  }

  private change(part: Partial<Batch>): void {
    batches.set(batches.value.map((b) => (b.key === this.key ? { ...b, ...part } : b)));
  }

  private progress(): void {
    const sent = this.finished + [...this.partly.values()].reduce((sum, n) => sum + n, 0);
    this.rate.note(sent, performance.now() / 1000);
    this.change({ sent, perSecond: this.rate.perSecond });
  }

  add(items: readonly Item[], overwrite: boolean): void {
    for (const item of items) this.queue.push({ item, overwrite });
    this.run();
  }

  run(): void {
    this.stop = new AbortController();
    this.asleep = false;
    this.change({ state: "sending", trouble: "" });
    this.fill();
  }

  /** Those that a pause ended may still be on their way out: each that ends looks whether work is left. */
  private fill(): void {
    if (this.stop.signal.aborted) return;
    while (this.working < AT_ONCE && this.queue.length > 0) {
      this.working += 1;
      void this.work(this.stop.signal);
    }
    if (this.working === 0) this.change({ state: "ended", perSecond: null });
  }

  pause(trouble = ""): void {
    this.stop.abort();
    this.rate.forget();
    this.change({ state: "paused", perSecond: null, trouble });
  }

  close(): void {
    this.stop.abort();
    this.queue = [];
  }

  private async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.queue.shift();
      if (next === undefined) break;
      const { item, overwrite } = next;
      this.change({ active: [...this.batch.active, item.path] });
      try {
        await (item.file.size >= LARGE_BYTES ? this.large(item, overwrite, signal) : this.small(item, overwrite, signal));
        this.finished += item.file.size;
        this.change({ done: this.batch.done + 1, trouble: "" });
        this.onFile(this.batch.folder);
      } catch (error) {
        if (!batches.value.some((b) => b.key === this.key)) break;
        if (error instanceof Halted || signal.aborted) this.queue.unshift(next);
        else if (error instanceof ApiError && this.haltsAll(error)) {
          this.queue.unshift(next);
          this.asleep = error.status === 401;
          this.pause(error.message);
        } else if (error instanceof ApiError && error.status === 409) this.change({ taken: [...this.batch.taken, item] });
        else this.change({ failed: [...this.batch.failed, { item, sentence: sentence(error) }] });
      } finally {
        this.partly.delete(item.path);
        if (batches.value.some((b) => b.key === this.key)) {
          this.change({ active: this.batch.active.filter((p) => p !== item.path) });
          this.progress();
        }
      }
    }
    this.working -= 1;
    this.fill();
  }

  /** The next file would meet the same. */
  private haltsAll(error: ApiError): boolean {
    return error.status === 401 || error.status === 0 || error.status === 507 || error.slug.includes("quota");
  }

  private async small({ path, file }: Item, overwrite: boolean, signal: AbortSignal): Promise<void> {
    for (const wait of [...RETRY_MS, null]) {
      try {
        await spaces.put(join(this.batch.folder, encodePath(path)), file, overwrite, signal);
        return;
      } catch (error) {
        if (signal.aborted) throw new Halted();
        const silent = error instanceof ApiError && (error.status === 0 || error.status === 502 || error.status === 503);
        if (!silent || wait === null) throw error;
        this.change({ trouble: "The connection broke. The upload goes on by itself." });
        await sleep(wait, signal);
      }
    }
  }

  private async large({ path, file }: Item, overwrite: boolean, signal: AbortSignal): Promise<void> {
    const target = decodeURIComponent(join(this.batch.folder, encodePath(path)));
    const begun = await findBegun("files", this.account, file, target);
    const metadata = {
      path: target,
      overwrite: String(overwrite),
      filename: file.name,
      modified_at: String(file.lastModified / 1000),
    };
    const id = await new Promise<string>((resolve, reject) => {
      let sending: Sending | undefined;
      signal.addEventListener("abort", () => {
        void sending?.pause();
        reject(new Halted());
      });
      send(
        "files",
        this.account,
        file,
        metadata,
        {
          onBegun: () => undefined,
          onProgress: (sent) => {
            this.partly.set(path, sent);
            this.progress();
          },
          onUploaded: resolve,
          onRetry: () => this.change({ trouble: "The connection broke. What was sent is kept, and the upload goes on by itself." }),
          onStop: reject,
        },
        { begun, target },
      ).then((started) => {
        sending = started;
        if (signal.aborted) void started.pause();
      }, reject);
    });
    await this.settled(id, signal);
  }

  /** Until the file lies at its place. */
  private async settled(id: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const upload = await uploads.show("files", id).catch((error: unknown) => {
        if (error instanceof ApiError && (error.status === 0 || error.status >= 502)) return null;
        throw error;
      });
      if (upload?.state === "done") return;
      if (upload?.state === "failed") {
        const { slug, detail } = upload.problem ?? { slug: "", detail: "The upload failed." };
        throw new ApiError(detail, slug === "conflict" ? 409 : 422, slug);
      }
      await sleep(upload === null ? 2000 : 300, signal);
    }
  }
}

const sentence = (error: unknown): string => {
  if (error instanceof ApiError) return error.message;
  // The file changed or vanished on the disk after it was chosen.
  return "The browser can no longer read this file.";
};

/** `onFile` hears of each file that is there, with the folder that was open. */
export function startFiles(account: string, folder: string, items: readonly Item[], onFile: (folder: string) => void): void {
  const key = freshId();
  const fresh: Batch = {
    key,
    folder,
    files: items.length,
    done: 0,
    bytes: items.reduce((sum, i) => sum + i.file.size, 0),
    sent: 0,
    perSecond: null,
    state: "sending",
    trouble: "",
    active: [],
    taken: [],
    failed: [],
  };
  batches.set([...batches.value, fresh]);
  const runner = new Runner(account, key, onFile);
  runners.set(key, runner);
  runner.add(items, false);
  batches.draw();
}

export function pauseFiles(key: string): void {
  runners.get(key)?.pause();
  batches.draw();
}

export function resumeFiles(key: string): void {
  runners.get(key)?.run();
  batches.draw();
}

/** Those whose names are taken: replaced, or left as they are. */
export function settleTaken(key: string, replace: boolean): void {
  const batch = batches.value.find((b) => b.key === key);
  if (batch === undefined) return;
  const { taken } = batch;
  batches.set(
    batches.value.map((b) =>
      b.key === key
        ? { ...b, taken: [], ...(replace ? {} : { files: b.files - taken.length, bytes: b.bytes - taken.reduce((s, i) => s + i.file.size, 0) }) }
        : b,
    ),
  );
  if (replace) runners.get(key)?.add(taken, true);
  batches.draw();
}

export function retryFailed(key: string): void {
  const failed = batches.value.find((b) => b.key === key)?.failed ?? [];
  batches.set(batches.value.map((b) => (b.key === key ? { ...b, failed: [] } : b)));
  runners.get(key)?.add(
    failed.map((f) => f.item),
    false,
  );
  batches.draw();
}

/** Stops what still goes on; what is there stays. */
export function dropFiles(key: string): void {
  batches.set(batches.value.filter((b) => b.key !== key));
  runners.get(key)?.close();
  runners.delete(key);
  batches.draw();
}

export function wakeFiles(): void {
  for (const runner of runners.values()) if (runner.asleep) runner.run();
}
