import { afterEach, describe, expect, it, vi } from "vitest";

import { type JobDetail, api } from "../api/client";
import { withoutJob } from "../api/events";
import { type Drawn, button, drawn, press, until } from "../testing";
import { KeptButtons, keptSentence } from "./kept";

const job = (more: Partial<JobDetail>): JobDetail =>
  ({ id: "j1", name: "day", owner: "ann", state: "SUCCEEDED", pinned: false, kept_until: null, ...more }) as JobDetail;

let page: Drawn | undefined;
afterEach(async () => {
  await page?.close();
  page = undefined;
  vi.restoreAllMocks();
});

describe("how long a job is kept", () => {
  it("is told where there is an end of it", () => {
    expect(keptSentence(job({}), 1000)).toBe("");
    expect(keptSentence(job({ pinned: true }), 1000)).toContain("pinned");
    expect(keptSentence(job({ kept_until: 2000 }), 1000)).toMatch(/^kept until /);
    expect(keptSentence(job({ kept_until: 900 }), 1000)).toContain("removed soon");
  });

  it("ends at once for an ended job that is not pinned", async () => {
    const gone = vi.spyOn(api, "DELETE").mockResolvedValue({ data: undefined, response: new Response(null, { status: 204 }) } as never);
    window.history.pushState(null, "", "/jobs/j1");
    page = await drawn(<KeptButtons job={job({})} owner={true} />);
    await press(button("Delete …"));
    expect(gone).not.toHaveBeenCalled();
    expect(document.body.textContent).toContain("Delete the job day?");
    await press(button("Delete"));
    await until(() => expect(gone).toHaveBeenCalledWith("/api/v1/jobs/{job}", { params: { path: { job: "j1" } } }));
    // The list of jobs.
    await until(() => expect(window.location.pathname).toBe("/jobs"));
  });

  it("has no end where it is pinned, until it is unpinned", async () => {
    const post = vi.spyOn(api, "POST").mockResolvedValue({ data: {}, response: new Response() } as never);
    page = await drawn(<KeptButtons job={job({ pinned: true })} owner={true} />);
    expect(document.body.textContent).not.toContain("Delete");
    await press(button("Unpin"));
    await until(() => expect(post).toHaveBeenCalledWith("/api/v1/jobs/{job}/unpin", { params: { path: { job: "j1" } } }));
  });

  it("leaves no row of a job that is gone in a list", () => {
    const pages = { pages: [{ jobs: [job({}), job({ id: "j2" })] }], pageParams: [] };
    expect(withoutJob(pages, "j1").pages[0]?.jobs.map((one) => one.id)).toEqual(["j2"]);
  });
});
