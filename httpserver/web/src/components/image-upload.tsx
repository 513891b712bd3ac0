import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { Link } from "wouter";

import { useAct } from "../api/act";
import type { User } from "../api/client";
import { keys } from "../api/events";
import { type ImageUpload, dropImage, imageUploads, pauseImage, resumeImage, startImage } from "../api/image-uploads";
import { useStore } from "../api/store";
import { type Begun, type Upload, findBegun, uploads } from "../api/uploads";
import { moment, size, span } from "../domain/format";
import { badImageName, badTag, nameFrom } from "../domain/image-name";
import { visible } from "../domain/paths";
import { remaining } from "../domain/rate";
import { Failure, Meter, Sentence, State } from "./basics";

const share = (part: number, whole: number | null): string => (whole ? `${Math.floor((100 * part) / whole)} %` : "");

/** What an image file shall become. */
export function ImageForm({ file, after = 0, user, onClose }: { file: File; after?: number; user: User; onClose: () => void }) {
  const [begun, setBegun] = useState<Begun | null | undefined>(undefined);
  const [owner, setOwner] = useState(user.name);
  const [name, setName] = useState(() => nameFrom(file.name));
  const [tag, setTag] = useState("latest");
  const [description, setDescription] = useState("");
  const [everybody, setEverybody] = useState(false);
  const [error, setError] = useState<Error | null>(null);

  useEffect(() => {
    let gone = false;
    findBegun("images", user.name, file).then(
      (found) => !gone && setBegun(found),
      (problem: Error) => {
        if (gone) return;
        setError(problem);
        setBegun(null);
      },
    );
    return () => {
      gone = true;
    };
  }, [file, user.name]);

  if (begun === undefined) return <p className="note">Checking whether a part of this file was uploaded before …</p>;

  if (begun !== null) {
    return (
      <section className="panel" aria-label="Upload an image">
        <h2>{begun.upload.metadata["name"] ?? file.name}</h2>
        <p>
          {share(begun.upload.offset, begun.upload.length)} of {file.name} ({size(file.size)}) was uploaded before.
        </p>
        <div className="actions">
          <button
            className="main"
            onClick={() => {
              void startImage(user.name, file, begun.upload.metadata, begun);
              onClose();
            }}
          >
            Continue from there
          </button>
          <button
            onClick={() => {
              setBegun(undefined); // no button of it is left meanwhile
              uploads.discard("images", begun.upload.id).then(
                () => setBegun(null),
                (problem: Error) => {
                  setBegun(begun);
                  setError(problem);
                },
              );
            }}
          >
            Start again from the beginning
          </button>
          <button className="quiet" onClick={onClose}>
            Cancel
          </button>
        </div>
        {error && <Failure error={error} />}
      </section>
    );
  }

  const wrong = badImageName(name) || badTag(tag);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (wrong) return;
    const full = `${owner === user.name ? "" : `${owner}/`}${name}:${tag}`;
    const metadata = {
      name: full,
      filename: file.name,
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(everybody ? { public: "true" } : {}),
    };
    void startImage(user.name, file, metadata, null);
    onClose();
  };
  return (
    <form className="panel" aria-label="Upload an image" onSubmit={submit}>
      <h2>
        {visible(file.name)} <small className="note">{size(file.size)}</small>
      </h2>
      <div className="fields">
        {user.admin && (
          <label>
            Owner
            <select value={owner} onChange={(e) => setOwner(e.target.value)}>
              <option value={user.name}>{user.name}</option>
              <option value="base">base</option>
            </select>
          </label>
        )}
        <label className={name && badImageName(name) ? "wrong" : ""}>
          Image name
          <input value={name} onChange={(e) => setName(e.target.value)} required autoFocus spellCheck={false} />
        </label>
        <label className={badTag(tag) ? "wrong" : ""}>
          Tag
          <input value={tag} onChange={(e) => setTag(e.target.value)} required size={12} spellCheck={false} />
        </label>
      </div>
      <label className="block">
        Description <small>Markdown; can be changed later</small>
        <textarea rows={2} value={description} onChange={(e) => setDescription(e.target.value)} />
      </label>
      <label>
        <input type="checkbox" checked={everybody} onChange={(e) => setEverybody(e.target.checked)} /> Public: everybody here can use it
      </label>
      {wrong && (
        <p className="wrong-text" role="alert">
          {wrong}
        </p>
      )}
      {error && <Failure error={error} />}
      <div className="actions">
        <button className="main" disabled={wrong !== ""}>
          Upload
        </button>
        <button type="button" className="quiet" onClick={onClose}>
          Cancel
        </button>
      </div>
      {after > 0 && <p className="note">{after === 1 ? "One more file comes" : `${after} more files come`} after this one.</p>}
      <p className="note">If the upload breaks off, choose the same file again. It goes on where it stopped.</p>
    </form>
  );
}

/** Images on their way: from this page, and what the server still keeps of earlier tries. */
export function ImageUploads({ onChoose }: { onChoose: (upload: Upload) => void }) {
  const client = useQueryClient();
  const local = useStore(imageUploads);
  const [seen] = useState(() => new Set<string>());
  const known = useQuery({
    queryKey: keys.uploads("images"),
    queryFn: () => uploads.list("images"),
    refetchInterval: (query) => {
      const busy = local.some((u) => u.state === "uploaded") || (query.state.data ?? []).some((u) => u.state === "checking");
      return busy ? 700 : 15_000;
    },
  });
  const list = known.data ?? [];
  const finished = list.filter((u) => u.state === "done").length;
  useEffect(() => {
    if (finished > 0) void client.invalidateQueries({ queryKey: keys.images });
  }, [client, finished]);

  const byId = new Map(list.map((u) => [u.id, u]));
  const mine = new Set(local.flatMap((u) => [u.uploadId, u.begunId]));
  for (const u of list) if (u.state !== "done") seen.add(u.id);
  // Those of another tab or of an earlier day; what was done before this page looked is of no interest.
  const others = list.filter((u) => !mine.has(u.id) && seen.has(u.id));
  const drop = (id: string): void => {
    seen.delete(id);
    void uploads.discard("images", id).finally(() => client.invalidateQueries({ queryKey: keys.uploads("images") }));
  };
  if (local.length === 0 && others.length === 0) return null;
  return (
    <section className="transfers" aria-label="Uploads">
      {local.map((upload) => {
        const server = upload.uploadId === null ? undefined : byId.get(upload.uploadId);
        const close = (): void => {
          if (server?.state === "failed" || server?.state === "choose") drop(server.id);
          void dropImage(upload.key).finally(() => client.invalidateQueries({ queryKey: keys.uploads("images") }));
        };
        return upload.state === "uploaded" ? (
          <Arrived key={upload.key} title={upload.title} upload={server} onClose={close} />
        ) : (
          <OnItsWay key={upload.key} upload={upload} onClose={close} />
        );
      })}
      {others.map((upload) =>
        upload.state === "receiving" ? (
          <article className="transfer" key={upload.id}>
            <h2>
              {upload.metadata["name"] ?? upload.id} <State state="unfinished" tone="wait" />
            </h2>
            <p className="note">
              {share(upload.offset, upload.length)} of {upload.metadata["filename"] ?? "the file"} ({size(upload.length)}) is there. Choose
              the same file again to go on where it stopped
              {upload.expires_at !== null && <>; until {moment(upload.expires_at)}</>}.
            </p>
            <div className="actions">
              <button className="small" onClick={() => onChoose(upload)}>
                Choose the file …
              </button>
              <button className="small" onClick={() => drop(upload.id)}>
                Discard
              </button>
            </div>
          </article>
        ) : (
          <Arrived key={upload.id} title={upload.metadata["name"] ?? upload.id} upload={upload} onClose={() => drop(upload.id)} />
        ),
      )}
    </section>
  );
}

/** What stopped it must be seen; what passes by itself need not. */
const troubleLook: Record<ImageUpload["state"], string> = { sending: "note", uploaded: "note", paused: "waits", failed: "failure" };

function OnItsWay({ upload, onClose }: { upload: ImageUpload; onClose: () => void }) {
  const rest = remaining(upload.sent, upload.size, upload.perSecond);
  const speed = upload.perSecond === null ? "" : `, ${size(upload.perSecond)}/s`;
  return (
    <article className="transfer" aria-label={`Upload of ${upload.title}`}>
      <h2>
        {upload.title}{" "}
        <State state={upload.state} tone={upload.state === "failed" ? "bad" : upload.state === "paused" ? "wait" : "live"} />
      </h2>
      {upload.state !== "failed" && (
        <Meter
          used={upload.sent}
          of={upload.size}
          text={`${share(upload.sent, upload.size)}: ${size(upload.sent)} of ${size(upload.size)}${speed}${rest === null ? "" : `, ${span(Math.ceil(rest))} left`}`}
        />
      )}
      {upload.trouble && (
        <p className={troubleLook[upload.state]} role={upload.state === "sending" ? "status" : "alert"}>
          <Sentence text={upload.trouble} />
        </p>
      )}
      <div className="actions">
        {upload.state === "sending" && (
          <button className="small" onClick={() => pauseImage(upload.key)}>
            Pause
          </button>
        )}
        {upload.state === "paused" && (
          <button className="small" onClick={() => resumeImage(upload.key)}>
            Resume
          </button>
        )}
        <button className="small quiet" onClick={onClose}>
          {upload.state === "failed" ? "Dismiss" : "Cancel the upload"}
        </button>
      </div>
    </article>
  );
}

/** All bytes are there; the server looks at them. */
function Arrived({ title, upload, onClose }: { title: string; upload: Upload | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const choose = useAct((choice: string) => uploads.choose(upload?.id ?? "", choice), {
    after: () => client.invalidateQueries({ queryKey: keys.uploads("images") }),
  });
  const state = upload?.state ?? "checking";
  const image = typeof upload?.result?.["image"] === "string" ? upload.result["image"] : undefined;
  return (
    <article className="transfer" aria-label={`Upload of ${title}`}>
      <h2>
        {title}{" "}
        <State
          state={state === "choose" ? "needs your choice" : state}
          tone={state === "done" ? "good" : state === "failed" ? "bad" : state === "choose" ? "wait" : "live"}
        />
      </h2>
      {state === "checking" && (
        <Meter
          used={upload?.progress ?? 0}
          of={1}
          text={`The server checks what is inside${upload?.progress ? `: ${Math.floor(100 * upload.progress)} %` : " …"}`}
        />
      )}
      {state === "choose" && (
        <fieldset className="choices">
          <legend>The file holds several images. Which is it?</legend>
          {upload?.choices.map((choice) => (
            <button key={choice} className="small" disabled={choose.busy} onClick={() => choose.run(choice)}>
              {visible(choice)}
            </button>
          ))}
        </fieldset>
      )}
      {state === "failed" && (
        <p className="failure" role="alert">
          <Sentence text={upload?.problem?.detail ?? "The upload failed."} />
        </p>
      )}
      {choose.error && <Failure error={choose.error} />}
      <div className="actions">
        {state === "done" && image !== undefined && <Link href={`/images/${image.replace(":", "/")}`}>Look at {image}</Link>}
        {state !== "checking" && (
          <button className="small quiet" onClick={onClose}>
            {state === "choose" ? "Discard" : "Dismiss"}
          </button>
        )}
      </div>
    </article>
  );
}
