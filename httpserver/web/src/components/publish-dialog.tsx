import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";

import { ApiError } from "../api/client";
import { type Dataset, datasets } from "../api/datasets";
import { keys } from "../api/events";
import { spaces } from "../api/spaces";
import type { Option } from "../domain/options";
import { decodePath, encodePath, isText } from "../domain/paths";
import { Failure, Sentence } from "./basics";
import { Combobox } from "./combobox";
import { Dialog } from "./dialog";

/** A folder of one's space becomes a dataset, or the next version of one. */
export function PublishDialog({
  path: first,
  name: firstName = "",
  onDone,
  onClose,
}: {
  /** Encoded; "" asks for it. */
  path: string;
  name?: string;
  onDone: (dataset: Dataset) => void;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const [path, setPath] = useState(() => decodePath(first));
  const [name, setName] = useState(firstName || nameOf(decodePath(first)));
  const [description, setDescription] = useState("");
  const [everybody, setEverybody] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useId();
  const folders = useFolders(path);
  const again = firstName !== "";
  const chosePath = (chosen: string): void => {
    setPath(chosen);
    if (name === "" && !again) setName(nameOf(chosen));
  };
  const publish = (copy: boolean): void => {
    setBusy(true);
    setError(null);
    datasets
      .publish({ name, path, ...(description.trim() ? { description: description.trim() } : {}), ...(everybody ? { public: true } : {}), copy })
      .then((dataset) => {
        void client.invalidateQueries({ queryKey: keys.datasets });
        onDone(dataset);
      }, setError)
      .finally(() => setBusy(false));
  };
  const needsCopy = error instanceof ApiError && error.status === 409 && error.slug === COPY_NEEDED;
  return (
    <Dialog
      title={again ? `Publish a new version of ${firstName}` : "Publish as dataset"}
      busy={busy}
      onClose={onClose}
      onSubmit={() => publish(false)}
      actions={
        needsCopy ? (
          <button type="button" className="main" disabled={busy} onClick={() => publish(true)}>
            Copy and publish
          </button>
        ) : (
          <button className="main" disabled={busy || !name || !path}>
            Publish
          </button>
        )
      }
    >
      <p className="note">
        A task that names a dataset can read it at /root/datasets/NAME. A version never changes. To change data, publish a new version.
      </p>
      <div className="block">
        <label htmlFor={field}>Folder in your space</label>
        <Combobox id={field} value={path} options={folders} placeholder="data/pictures" required autoFocus={first === ""} onText={setPath} onPick={chosePath} />
      </div>
      {!again && (
        <>
          <label className="block">
            Dataset name
            <input value={name} onChange={(e) => setName(e.target.value)} required spellCheck={false} autoFocus={first !== ""} />
          </label>
          <label className="block">
            Description <small>Markdown</small>
            <textarea rows={2} value={description} onChange={(e) => setDescription(e.target.value)} />
          </label>
          <label>
            <input type="checkbox" checked={everybody} onChange={(e) => setEverybody(e.target.checked)} /> Public: everybody here can use it
          </label>
        </>
      )}
      {needsCopy ? (
        <div className="waits" role="alert">
          <Sentence text={error.message} />
        </div>
      ) : (
        error && <Failure error={error} />
      )}
    </Dialog>
  );
}

/** Folders beside and below what is typed, for suggestions. */
function useFolders(typed: string): readonly Option[] {
  const above = typed.includes("/") ? typed.slice(0, typed.lastIndexOf("/")) : "";
  const list = useQuery({
    queryKey: [...keys.folder(encodePath(above)), "folders"],
    queryFn: () => spaces.list(encodePath(above), ""),
    placeholderData: (old) => old,
  });
  const group = above === "" ? "Your space" : above;
  return (list.data?.entries ?? [])
    .filter((entry) => entry.kind === "folder" && isText(entry.encoded))
    .map((entry) => ({ value: above === "" ? entry.name : `${above}/${entry.name}`, group, note: "" }));
}

/** What the server says when the bytes can't be shared, only copied. */
const COPY_NEEDED = "copy-needed";

const nameOf = (path: string): string =>
  (path.split("/").at(-1) ?? "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "");
