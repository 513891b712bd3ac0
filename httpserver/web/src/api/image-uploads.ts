/** Images on their way from this page; they go on while other views are looked at. */
import { freshId } from "../domain/id";
import { Rate } from "../domain/rate";
import { ApiError } from "./client";
import { Store } from "./store";
import { type Begun, type Sending, send } from "./uploads";

export interface ImageUpload {
  readonly key: string;
  /** `name:tag`. */
  readonly title: string;
  readonly fileName: string;
  readonly size: number;
  readonly sent: number;
  readonly perSecond: number | null;
  readonly state: "sending" | "paused" | "uploaded" | "failed";
  /** Why it is slow, stopped or failed, as a sentence. */
  readonly trouble: string;
  /** The server's, once all is there. */
  readonly uploadId: string | null;
  /** The server's, while bytes are still missing. */
  readonly begunId: string | null;
}

export const imageUploads = new Store<readonly ImageUpload[]>([]);

const sendings = new Map<string, Sending>();
const rates = new Map<string, Rate>();
/** Stopped because the session ended. */
const asleep = new Set<string>();

const now = (): number => performance.now() / 1000;

function change(key: string, part: Partial<ImageUpload>): void {
  imageUploads.set(imageUploads.value.map((u) => (u.key === key ? { ...u, ...part } : u)));
}

export async function startImage(
  account: string,
  file: File,
  metadata: { readonly [key: string]: string },
  begun: Begun | null,
): Promise<void> {
  const key = freshId();
  const rate = new Rate();
  rates.set(key, rate);
  const first: ImageUpload = {
    key,
    title: metadata["name"] ?? file.name,
    fileName: file.name,
    size: file.size,
    sent: begun?.upload.offset ?? 0,
    perSecond: null,
    state: "sending",
    trouble: "",
    uploadId: null,
    begunId: begun?.upload.id ?? null,
  };
  // One that is begun again takes the place of its former row.
  imageUploads.set([...imageUploads.value.filter((u) => u.begunId === null || u.begunId !== first.begunId), first]);
  imageUploads.draw();
  try {
    const sending = await send(
      "images",
      account,
      file,
      metadata,
      {
        onBegun: (begunId) => change(key, { begunId }),
        onProgress: (sent) => {
          rate.note(sent, now());
          change(key, { sent, perSecond: rate.perSecond, trouble: "" });
        },
        onUploaded: (uploadId) => change(key, { state: "uploaded", sent: file.size, uploadId, trouble: "" }),
        onRetry: () => {
          rate.forget();
          change(key, { perSecond: null, trouble: "The connection broke. What was sent is kept, and the upload goes on by itself." });
        },
        onStop: (error, resumable) => {
          if (error.status === 401) asleep.add(key);
          change(key, { state: resumable ? "paused" : "failed", perSecond: null, trouble: error.message });
        },
      },
      { begun },
    );
    sendings.set(key, sending);
  } catch (error) {
    const message = error instanceof ApiError ? error.message : "The page could not load its upload part. Try again.";
    change(key, { state: "failed", trouble: message });
  }
}

export function pauseImage(key: string): void {
  void sendings.get(key)?.pause();
  rates.get(key)?.forget();
  change(key, { state: "paused", perSecond: null, trouble: "" });
  imageUploads.draw();
}

export function resumeImage(key: string): void {
  asleep.delete(key);
  change(key, { state: "sending", trouble: "" });
  sendings.get(key)?.resume();
  imageUploads.draw();
}

/** Takes it off the list; with what the server has of it, unless it is all there. */
export async function dropImage(key: string): Promise<void> {
  const found = imageUploads.value.find((u) => u.key === key);
  imageUploads.set(imageUploads.value.filter((u) => u.key !== key));
  imageUploads.draw();
  if (found !== undefined && found.uploadId === null) await sendings.get(key)?.cancel();
  sendings.delete(key);
  rates.delete(key);
}

/** After somebody signed in again. */
export function wakeImages(): void {
  for (const key of [...asleep]) resumeImage(key);
}
