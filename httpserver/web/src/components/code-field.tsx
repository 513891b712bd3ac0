import { useState } from "react";

import type { ProblemItem } from "../api/client";
import type { CodeField } from "../domain/draft";
import { size } from "../domain/format";
import { short } from "../domain/image-name";
import { HelpLink } from "./help-link";
import { Failure, FieldProblems, Meter } from "./basics";
import { FileButton } from "./drop-zone";

/** A folder of this computer that goes with the job. */
export function CodeFieldset({
  code,
  problems,
  onChange,
}: {
  code: CodeField | null;
  problems: readonly ProblemItem[];
  onChange: (code: CodeField | null) => void;
}) {
  const [doing, setDoing] = useState<{ what: string; share: number } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const take = async (files: FileList | null): Promise<void> => {
    // Read at once: the browser empties the list when the field is set back.
    const all = [...(files ?? [])];
    if (all.length === 0) return;
    setError(null);
    setDoing({ what: "Reading", share: 0 });
    try {
      const [{ chosen, inside }, { upload }] = await Promise.all([import("../domain/snapshot"), import("../api/code")]);
      const folder = inside(all);
      const snapshot = await upload(await chosen(folder.files), (what, share) => setDoing({ what, share }));
      onChange({ digest: snapshot.digest, folder: folder.name, files: snapshot.files, sizeBytes: snapshot.size_bytes });
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setDoing(null);
    }
  };
  return (
    <div className="needs" role="group" aria-label="Code">
      <span>Code</span>
      <HelpLink topic="code" />
      {code !== null && doing === null && (
        <span className="chip" title={code.digest}>
          {code.folder && `${code.folder}: ${code.files} file${code.files === 1 ? "" : "s"}, ${size(code.sizeBytes)}, `}
          <code>{short(code.digest)}</code>
          <button type="button" aria-label="Remove the code" onClick={() => onChange(null)}>
            ×
          </button>
        </span>
      )}
      {doing === null ? (
        <FileButton folder onFiles={(files) => void take(files)}>
          {code === null ? "Choose a folder on this computer …" : "Choose another folder …"}
        </FileButton>
      ) : (
        <Meter used={doing.share} of={1} text={`${doing.what} … ${Math.floor(100 * doing.share)} %`} />
      )}
      {code === null && doing === null && (
        <small className="note">A copy of the folder as it is now, without the files that .gitignore names. Tasks see it at /root/code.</small>
      )}
      {error && <Failure error={error} />}
      <FieldProblems problems={problems} />
    </div>
  );
}
