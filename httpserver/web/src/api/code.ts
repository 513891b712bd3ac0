/** Snapshots of a folder that go with a job: what the server has already is not sent again. */
import { ask, askJson } from "./client";
import { type CodeFile, type CodeLimits, manifestOf } from "../domain/snapshot";
import { tarOf } from "../domain/tar";
import type { components } from "./generated/schema";

type Answer = components["schemas"]["CodeAnswer"];

export interface Snapshot {
  readonly digest: string;
  readonly files: number;
  readonly size_bytes: number;
}

/** So much is sent in one body: a cut costs no more than this. */
const BODY_BYTES = 16 << 20;

/**
 * Sends what is missing of these files.
 *
 * `onProgress` hears what is being done and how much of it, from 0 to 1.
 */
export async function upload(
  files: readonly CodeFile[],
  onProgress: (what: string, share: number) => void,
  limits?: CodeLimits,
): Promise<Snapshot> {
  const manifest = await manifestOf(files, (share) => onProgress("Reading", share), limits);
  const json = { files: manifest, links: [] };
  let answer = await askJson<Answer>("POST", "/code", { json });
  const byHash = new Map(manifest.map((entry, i) => [entry.sha256, files[i] as CodeFile]));
  const missing = answer.missing.flatMap((sha256) => {
    const file = byHash.get(sha256);
    return file === undefined ? [] : [{ name: sha256, blob: file.file as Blob }];
  });
  for (let from = 0; from < missing.length; ) {
    let to = from;
    for (let bytes = 0; to < missing.length && (to === from || bytes < BODY_BYTES); to++) bytes += missing[to]?.blob.size ?? 0;
    onProgress("Sending", from / missing.length);
    await ask("PUT", "/code/blobs", { body: tarOf(missing.slice(from, to)), headers: { "Content-Type": "application/x-tar" } });
    from = to;
  }
  if (!answer.ready) answer = await askJson<Answer>("POST", "/code", { json });
  return { digest: answer.digest, files: answer.files, size_bytes: answer.size_bytes };
}
