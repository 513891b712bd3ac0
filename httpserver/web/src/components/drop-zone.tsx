import { type DragEvent, type ReactNode, useRef, useState } from "react";

import { type Found, dropped } from "../domain/dropped";

/** All inside of it takes files and folders that are dropped; a button does the same for those without a mouse. */
export function DropZone({ label, onDrop, children }: { label: string; onDrop: (found: Found) => void; children: ReactNode }) {
  const [over, setOver] = useState(false);
  // Entering a child leaves its parent: counted, or the frame would flicker.
  const depth = useRef(0);
  const carries = (event: DragEvent): boolean => event.dataTransfer.types.includes("Files");
  const enter = (event: DragEvent, by: 1 | -1): void => {
    if (!carries(event)) return;
    depth.current = Math.max(0, depth.current + by);
    setOver(depth.current > 0);
  };
  return (
    <div
      className={over ? "drop-zone over" : "drop-zone"}
      onDragEnter={(e) => enter(e, 1)}
      onDragLeave={(e) => enter(e, -1)}
      onDragOver={(e) => {
        if (!carries(e)) return;
        e.preventDefault();
        e.dataTransfer.dropEffect = "copy";
      }}
      onDrop={(e) => {
        if (!carries(e)) return;
        e.preventDefault();
        depth.current = 0;
        setOver(false);
        void dropped(e.dataTransfer).then(onDrop);
      }}
    >
      {children}
      {over && <p className="drop-note">{label}</p>}
    </div>
  );
}

/** A button that opens the browser's file dialog. */
export function FileButton({
  children,
  multiple = false,
  folder = false,
  main = false,
  onFiles,
}: {
  children: ReactNode;
  multiple?: boolean;
  folder?: boolean;
  main?: boolean;
  onFiles: (files: FileList | null) => void;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" className={main ? "main" : ""} onClick={() => input.current?.click()}>
        {children}
      </button>
      <input
        ref={input}
        type="file"
        className="hidden"
        tabIndex={-1}
        aria-hidden="true"
        multiple={multiple || folder}
        {...(folder ? { webkitdirectory: "" } : {})}
        onChange={(e) => {
          onFiles(e.target.files);
          e.target.value = "";
        }}
      />
    </>
  );
}
