/** What a field suggests, and which of it fits what is typed. */
import { size } from "./format";

export interface Option {
  readonly value: string;
  readonly group: string;
  /** What helps to choose, in few words. */
  readonly note: string;
  /** What else it is found by, such as its description. */
  readonly words?: string;
}

/** Those that hold every word that is typed, in any place and case. */
export function matching(options: readonly Option[], typed: string): readonly Option[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return options.filter((option) => {
    const text = `${option.value} ${option.note} ${option.words ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** By their groups, in the order in which the groups come first. */
export function grouped(options: readonly Option[]): { readonly name: string; readonly options: readonly Option[] }[] {
  const groups = new Map<string, Option[]>();
  for (const option of options) {
    const group = groups.get(option.group);
    if (group === undefined) groups.set(option.group, [option]);
    else group.push(option);
  }
  return [...groups].map(([name, members]) => ({ name, options: members }));
}

interface ImageLike {
  readonly owner: string;
  readonly full_name: string;
  readonly public: boolean;
  readonly description: string;
  readonly tags: readonly {
    readonly tag: string;
    readonly size_bytes: number;
    readonly cuda_version: string;
    readonly frameworks: { readonly [name: string]: string };
  }[];
}

interface NodeLike {
  readonly id: string;
  readonly images: readonly string[];
}

const IMAGE_GROUPS = ["Your images", "Shared with you", "Base images", "Public images"] as const;
const ON_MACHINES = "On the machines";

function imageGroup(image: ImageLike, me: string): (typeof IMAGE_GROUPS)[number] {
  if (image.owner === me) return "Your images";
  if (image.owner === "base") return "Base images";
  return image.public ? "Public images" : "Shared with you";
}

/** Images of the market by whose they are, then names that only machines' engines know. */
export function imageOptions(images: readonly ImageLike[], nodes: readonly NodeLike[], me: string): Option[] {
  const ofMarket = IMAGE_GROUPS.flatMap((group) =>
    images
      .filter((image) => imageGroup(image, me) === group)
      .flatMap((image) =>
        image.tags
          .filter((tag) => tag.tag !== "")
          .map((tag) => ({
            value: `${image.full_name}:${tag.tag}`,
            group,
            note: [
              size(tag.size_bytes),
              tag.cuda_version && `CUDA ${tag.cuda_version}`,
              ...Object.entries(tag.frameworks).map(([name, version]) => `${name} ${version}`),
            ]
              .filter(Boolean)
              .join(", "),
            words: image.description,
          })),
      ),
  );
  const known = new Set(ofMarket.map((option) => option.value));
  const where = new Map<string, string[]>();
  for (const node of nodes) {
    for (const name of new Set(node.images)) {
      if (known.has(name)) continue;
      const names = where.get(name);
      if (names === undefined) where.set(name, [node.id]);
      else names.push(node.id);
    }
  }
  const onMachines = [...where]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([value, names]) => ({
      value,
      group: ON_MACHINES,
      note: names.length === 1 ? `on ${names[0] ?? ""}` : `on ${names.length} machines`,
    }));
  return [...ofMarket, ...onMachines];
}

interface DatasetLike {
  readonly name: string;
  readonly owner: string;
  readonly public: boolean;
  readonly description: string;
  readonly versions: readonly {
    readonly version: string;
    readonly state: string;
    readonly files: number | null;
    readonly size_bytes: number | null;
  }[];
}

/** Datasets by whose they are: each by its name, which means its newest version, and by each version. */
export function datasetOptions(datasets: readonly DatasetLike[], me: string): Option[] {
  const groupOf = (dataset: DatasetLike): string =>
    dataset.owner === me ? "Your datasets" : dataset.public || dataset.owner === "" ? "Public datasets" : "Shared with you";
  const options = datasets.flatMap((dataset) => {
    const ready = dataset.versions.filter((version) => version.state === "ready").reverse();
    const newest = ready[0];
    if (newest === undefined) return [];
    const fact = ({ files, size_bytes }: { files: number | null; size_bytes: number | null }): string =>
      [files === null ? "" : `${files} file${files === 1 ? "" : "s"}`, size_bytes === null ? "" : size(size_bytes)].filter(Boolean).join(", ");
    const rest = { group: groupOf(dataset), words: dataset.description };
    return [
      { value: dataset.name, note: [`newest version, now ${newest.version}`, fact(newest)].filter(Boolean).join("; "), ...rest },
      ...ready.map((version) => ({ value: `${dataset.name}@${version.version}`, note: fact(version), ...rest })),
    ];
  });
  const order = ["Your datasets", "Shared with you", "Public datasets"];
  return options.sort((a, b) => order.indexOf(a.group) - order.indexOf(b.group));
}
