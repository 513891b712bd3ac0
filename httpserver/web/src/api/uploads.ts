/** Resumable uploads by tus 1.0; the protocol is spoken by its official client, which is fetched when first needed. */
import type { DetailedError, PreviousUpload, Upload as Tus, UploadOptions } from "tus-js-client";

import type { components } from "./generated/schema";
import { ApiError, ask, askJson, tellSignedOut, toApiError } from "./client";

export type Kind = "images" | "files";

/** What the server knows of an upload. */
export type Upload = components["schemas"]["Upload"];

export const uploads = {
  list: async (kind: Kind) => (await askJson<{ uploads: readonly Upload[] }>("GET", `/uploads/${kind}`)).uploads,
  show: (kind: Kind, id: string) => askJson<Upload>("GET", `/uploads/${kind}/${encodeURIComponent(id)}`),
  choose: (id: string, choice: string) =>
    askJson<Upload>("POST", `/uploads/images/${encodeURIComponent(id)}`, { query: { op: "choose" }, json: { choice } }),
  /** One that is gone already is fine. */
  discard: async (kind: Kind, id: string): Promise<void> => {
    try {
      await ask("DELETE", `/uploads/${kind}/${encodeURIComponent(id)}`, { headers: { "Tus-Resumable": "1.0.0" } });
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 410))) throw error;
    }
  },
};

/** A silence of the server of some minutes is waited out. */
const RETRY_DELAYS_MS = [0, 500, 1000, 2000, 3000, ...Array<number>(60).fill(5000)];

const library = () => import("tus-js-client");

const endpoint = (kind: Kind): string => `${location.origin}/api/v1/uploads/${kind}`;

/** The same file, chosen again by the same account, is recognised by this; `target` keeps copies in two folders apart. */
const fingerprint = (kind: Kind, account: string, target: string) => (file: File) =>
  Promise.resolve(["headway", account, kind, target, file.name, file.size, file.lastModified].map(encodeURIComponent).join("-"));

export const idOf = (url: string): string => decodeURIComponent(url.split("/").at(-1) ?? "");

export interface Begun {
  readonly upload: Upload;
  readonly previous: PreviousUpload;
}

/** An upload of this very file that was cut and that the server still keeps. */
export async function findBegun(kind: Kind, account: string, file: File, target = ""): Promise<Begun | null> {
  const { defaultOptions } = await library();
  const stored = await defaultOptions.urlStorage.findUploadsByFingerprint(await fingerprint(kind, account, target)(file));
  stored.sort((a, b) => b.creationTime.localeCompare(a.creationTime));
  for (const previous of stored) {
    if (previous.uploadUrl === null) continue;
    try {
      const upload = await uploads.show(kind, idOf(previous.uploadUrl));
      if (upload.state === "receiving") return { upload, previous };
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 410))) throw error;
    }
    await defaultOptions.urlStorage.removeUpload(previous.urlStorageKey);
  }
  return null;
}

export interface Events {
  /** The server knows it by this id from now on. */
  onBegun(id: string): void;
  onProgress(sent: number): void;
  /** All bytes are there; the server goes on by itself. */
  onUploaded(id: string): void;
  /** The connection broke; it is tried again. */
  onRetry(): void;
  /** It has stopped. `resumable`: what was sent is kept, `resume` goes on. */
  onStop(error: ApiError, resumable: boolean): void;
}

export interface Sending {
  pause(): Promise<void>;
  resume(): void;
  /** With what the server has of it. */
  cancel(): Promise<void>;
}

const statusOf = (error: Error): number => (error as DetailedError).originalResponse?.getStatus() ?? 0;

/** Refusals stay; silence, locks and a server in trouble pass. */
const passes = (status: number): boolean => status === 0 || status === 409 || status === 423 || status === 429 || (status >= 500 && status !== 507);

function problemOf(error: Error): ApiError {
  const response = (error as DetailedError).originalResponse;
  if (!response) return new ApiError("The connection to Headway broke. What was sent is kept.", 0, "no-service");
  try {
    return toApiError(JSON.parse(response.getBody()), response.getStatus());
  } catch {
    return toApiError(null, response.getStatus());
  }
}

/** Starts sending; goes on where `begun` stopped. */
export async function send(
  kind: Kind,
  account: string,
  file: File,
  metadata: { readonly [key: string]: string },
  events: Events,
  { begun = null, target = "" }: { begun?: Begun | null; target?: string } = {},
): Promise<Sending> {
  const { Upload: TusUpload } = await library();
  const options: UploadOptions = {
    endpoint: endpoint(kind),
    metadata: { ...metadata },
    retryDelays: RETRY_DELAYS_MS,
    fingerprint: fingerprint(kind, account, target),
    removeFingerprintOnSuccess: true,
    onUploadUrlAvailable: () => events.onBegun(idOf(tus.url ?? "")),
    onProgress: (sent) => events.onProgress(sent),
    onSuccess: () => events.onUploaded(idOf(tus.url ?? "")),
    onShouldRetry: (error) => {
      const again = passes(statusOf(error));
      if (again) events.onRetry();
      return again;
    },
    onError: (error) => {
      const status = statusOf(error);
      if (status === 401) tellSignedOut();
      events.onStop(problemOf(error), passes(status) || status === 401 || (status === 507 && tus.url !== null));
    },
  };
  const tus: Tus = new TusUpload(file, options);
  if (begun !== null) tus.resumeFromPreviousUpload(begun.previous);
  tus.start();
  return {
    pause: () => tus.abort(),
    resume: () => tus.start(),
    cancel: async () => {
      await tus.abort();
      if (tus.url === null) return;
      await uploads.discard(kind, idOf(tus.url));
      const stored = await options.fingerprint?.(file, options);
      const { defaultOptions } = await library();
      for (const previous of await defaultOptions.urlStorage.findUploadsByFingerprint(stored ?? "")) {
        if (previous.uploadUrl === tus.url) await defaultOptions.urlStorage.removeUpload(previous.urlStorageKey);
      }
    },
  };
}
