/** Files and folders that were dropped on the page or chosen in a dialog. */

export interface Found {
  readonly files: readonly { readonly path: string; readonly file: File }[];
  /** Folders without anything in them. */
  readonly empty: readonly string[];
}

const entriesOf = (reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> =>
  new Promise((resolve, reject) => reader.readEntries(resolve, reject));

const fileOf = (entry: FileSystemFileEntry): Promise<File> => new Promise((resolve, reject) => entry.file(resolve, reject));

async function walk(entry: FileSystemEntry, path: string, files: { path: string; file: File }[], empty: string[]): Promise<void> {
  if (entry.isFile) {
    files.push({ path, file: await fileOf(entry as FileSystemFileEntry) });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  let any = false;
  // A browser gives a hundred at a time, and none when it is done.
  for (let some = await entriesOf(reader); some.length > 0; some = await entriesOf(reader)) {
    any = true;
    for (const child of some) await walk(child, `${path}/${child.name}`, files, empty);
  }
  if (!any) empty.push(path);
}

/** Must be called in the event's own handler: the list of what was dropped is empty afterwards. */
export function dropped(transfer: DataTransfer): Promise<Found> {
  const plain = [...transfer.files];
  const entries = [...transfer.items].map((item) => (item.kind === "file" ? item.webkitGetAsEntry() : null)).filter((e) => e !== null);
  return (async () => {
    const files: { path: string; file: File }[] = [];
    const empty: string[] = [];
    if (entries.length === 0) for (const file of plain) files.push({ path: file.name, file });
    for (const entry of entries) await walk(entry, entry.name, files, empty);
    return { files, empty };
  })();
}

export const fromInput = (list: FileList | null): Found => ({
  files: [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })),
  empty: [],
});
