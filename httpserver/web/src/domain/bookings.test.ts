import { describe, expect, it } from "vitest";

import type { Node, NodeList } from "../api/client";
import { freeNow, gpuTold, gpuWord, gpusByJob, keepBookings, withNode } from "./bookings";

type Gpu = Node["gpus"][number];

const gpu = (uuid: string, more: Partial<Gpu> = {}): Gpu =>
  ({ uuid, index: 0, model: "A100", sick: false, busy_outside: false, state: "free", booking: null, utilisation: null, ...more }) as Gpu;
const held = (job: string): Partial<Gpu> => ({ state: "booked", booking: { job_id: job } as Gpu["booking"] });
const node = (id: string, gpus: Gpu[], more: Partial<Node> = {}): Node => ({ id, gpus, booked: { gpus: 1 }, ...more }) as Node;
const list = (nodes: Node[], told: Partial<NodeList["gpus"]> = {}): NodeList => ({
  nodes,
  gpus: { total: nodes.flatMap((one) => one.gpus).length, free: 0, booked: 0, unusable: 0, next_free_at: null, ...told },
  missing: [], notices: [],
});

describe("who has what", () => {
  it("says in a word what a GPU is good for", () => {
    expect(gpuWord(gpu("a")).word).toBe("free");
    expect(gpuWord(gpu("a", held("j1")))).toEqual({ word: "booked", tone: "live" });
    expect(gpuWord(gpu("a", { ...held("j1"), sick: true }))).toEqual({ word: "booked, faulty", tone: "bad" });
    expect(gpuWord(gpu("a", { state: null })).word).toBe("not known");
    expect(gpuWord(gpu("a", { state: null, sick: true })).word).toBe("faulty");
    expect(gpuTold(gpu("a", { note: "" }))).toBe("free");
    expect(gpuTold(gpu("a", { state: "sick", note: "it is too hot" }))).toBe("faulty: it is too hot");
  });

  it("counts the GPUs of each job, and none while bookings are not known", () => {
    const nodes = [node("n1", [gpu("a", held("j1")), gpu("b", held("j1"))]), node("n2", [gpu("c", held("j2")), gpu("d")])];
    expect([...(gpusByJob(list(nodes)) ?? [])]).toEqual([
      ["j1", 2],
      ["j2", 1],
    ]);
    expect(gpusByJob(list(nodes, { free: null }))).toBeNull();
    expect(gpusByJob(undefined)).toBeNull();
  });

  it("says what is free in every kind of cluster", () => {
    const two = [node("n1", [gpu("a"), gpu("b")])];
    expect(freeNow(list(two, { free: 1 }))).toBe("1 of 2 GPUs free now.");
    expect(freeNow(list(two, { free: 1, unusable: 1 }))).toBe("1 of 2 GPUs free now. 1 can’t be used now.");
    expect(freeNow(list(two, { free: null }))).toBe("2 GPUs.");
    expect(freeNow(list([node("n1", [])]))).toBe("No machine here has a GPU. Tasks run on CPUs.");
    expect(freeNow(list([]))).toBe("No machine has registered yet.");
  });

  it("keeps what is booked when an event tells what is measured", () => {
    const before = node("n1", [gpu("a", held("j1"))]);
    const event = node("n1", [gpu("a", { state: null, utilisation: 0.5 }), gpu("new", { state: null })], { booked: null });
    const [known, unknown] = keepBookings(before, event).gpus;
    expect([known?.state, known?.booking?.job_id, known?.utilisation, unknown?.state]).toEqual(["booked", "j1", 0.5, null]);
    const changed = withNode(list([before, node("n3", [])]), { ...event, id: "n2" });
    expect(changed.nodes.map((one) => one.id)).toEqual(["n1", "n2", "n3"]);
    expect(withNode(list([before]), event).nodes[0]?.booked).toEqual({ gpus: 1 });
  });
});
