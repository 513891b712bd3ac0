import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { Link, useLocation } from "wouter";

import { useAct } from "../api/act";
import type { User } from "../api/client";
import { keys } from "../api/events";
import { type Change, type ImageDetail, type TagDetail, market, refOf } from "../api/market";
import { Failure, useNow, useTitle } from "../components/basics";
import { DeleteDialog } from "../components/delete-dialog";
import { Description } from "../components/description";
import { ShareDialog, sharedText } from "../components/share";
import { tell } from "../components/toasts";
import { Moment } from "../components/when";
import { Trouble, shows } from "../components/kept-answer";
import { takeIntoDraft } from "../domain/take";
import { moment, size } from "../domain/format";
import { badTag, short } from "../domain/image-name";
import { visible } from "../domain/paths";

export function ImageView({ owner, name, tag: chosen, user }: { owner: string; name: string; tag?: string; user: User }) {
  const ref = `${owner}/${name}`;
  useTitle(chosen ? `${ref}:${chosen}` : ref);
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asking, setAsking] = useState<"share" | "delete" | "delete tag" | null>(null);
  const now = useNow(30_000);
  const image = useQuery({ queryKey: keys.image(ref), queryFn: () => market.show(ref) });
  const change = useMutation({
    mutationFn: (part: Change) => market.change(ref, part),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.images }),
  });
  if (image.isPending) return <p>Loading …</p>;
  if (image.data === undefined || !shows(image)) return <Trouble of={image} />;
  const detail = image.data;
  const tag = detail.tags.find((t) => t.tag === chosen) ?? (chosen === undefined ? detail.tags[0] : undefined);
  const full = tag ? refOf(detail, tag) : detail.full_name;
  const gone = (text: string, to: string): void => {
    setAsking(null);
    tell(text);
    void client.invalidateQueries({ queryKey: keys.images });
    go(to);
  };
  return (
    <>
      <Trouble of={image} />
      <div className="title-row">
        <div>
          <h1>{detail.full_name}</h1>
          <p className="facts">
            by {detail.owner} · {sharedText(detail)} · changed <Moment at={detail.updated_at} now={now} />
            {detail.last_good_run && (
              <>
                {" "}
                · last good run <Link href={`/jobs/${detail.last_good_run.job_id}`}><Moment at={detail.last_good_run.at} now={now} /></Link>
              </>
            )}
          </p>
        </div>
        <div className="actions">
          {tag && (
            <button
              className="main"
              onClick={() => {
                takeIntoDraft(user.name, { image: full });
                go("/submit");
              }}
            >
              Use in a job
            </button>
          )}
          {tag && (
            <a className="button" href={market.archive(full)} download>
              Download
            </a>
          )}
          {detail.may_change && (
            <>
              <button onClick={() => setAsking("share")}>Share …</button>
              <button onClick={() => setAsking("delete")}>Delete …</button>
            </>
          )}
        </div>
      </div>
      <Description
        text={detail.description}
        onSave={detail.may_change ? (description) => change.mutateAsync({ description }) : null}
      />
      {chosen !== undefined && tag === undefined && <p className="failure">There is no tag {chosen}.</p>}
      <Tags detail={detail} chosen={tag} now={now} />
      {tag && <Inside detail={detail} tag={tag} now={now} onDelete={detail.may_change && detail.tags.length > 1 ? () => setAsking("delete tag") : null} />}
      {asking === "share" && (
        <ShareDialog what={detail.full_name} of={detail} onSave={(part) => change.mutateAsync(part)} onClose={() => setAsking(null)} />
      )}
      {asking === "delete" && (
        <DeleteDialog
          what={detail.full_name}
          jobs={[...new Set(detail.tags.flatMap((t) => t.live_jobs))]}
          onDelete={{ now: () => market.remove(ref, false), wait: () => market.remove(ref, true) }}
          onDone={() => gone(`${detail.full_name} is deleted.`, "/images")}
          onClose={() => setAsking(null)}
        >
          <p>
            {detail.tags.length === 1 ? "Its one tag goes" : `Its ${detail.tags.length} tags go`} with it. The logs of ended jobs stay.
          </p>
        </DeleteDialog>
      )}
      {asking === "delete tag" && tag && (
        <DeleteDialog
          what={full}
          jobs={tag.live_jobs}
          onDelete={{ now: () => market.remove(full, false), wait: () => market.remove(full, true) }}
          onDone={() => gone(`${full} is deleted.`, `/images/${ref}`)}
          onClose={() => setAsking(null)}
        />
      )}
    </>
  );
}

function Tags({ detail, chosen, now }: { detail: ImageDetail; chosen: TagDetail | undefined; now: number }) {
  return (
    <div className="scroll">
      <table className="wide" aria-label="Tags">
        <thead>
          <tr>
            <th>Tag</th>
            <th>Digest</th>
            <th>Size</th>
            <th>Pushed</th>
            <th>By</th>
          </tr>
        </thead>
        <tbody>
          {detail.tags.map((t) => (
            <tr key={`${t.tag} ${t.digest}`} className={t === chosen ? "chosen" : ""}>
              <td className="name">
                <Link href={`/images/${detail.full_name}/${t.tag}`} aria-current={t === chosen}>
                  {t.tag}
                </Link>
                {t.tag === "" && <span className="note">no tag any more</span>}
              </td>
              <td>
                <code title={t.digest}>{short(t.digest)}</code>
              </td>
              <td className="number">{size(t.size_bytes)}</td>
              <td className="number"><Moment at={t.pushed_at} now={now} /></td>
              <td>{t.pushed_by}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const words = (parts: readonly string[]): string => (parts.length === 0 ? "–" : parts.map((p) => (/^[\w@%+=:,./-]+$/.test(p) ? p : visible(JSON.stringify(p)))).join(" "));

function Inside({ detail, tag, now, onDelete }: { detail: ImageDetail; tag: TagDetail; now: number; onDelete: (() => void) | null }) {
  const shell = tag.has_shell ? (tag.has_bash ? "sh and bash" : "sh") : "none: write the command “without a shell”, one word a line";
  const frameworks = Object.entries(tag.frameworks).map(([name, version]) => `${name} ${version}`);
  return (
    <section className="panel" aria-label={`Inside ${refOf(detail, tag)}`}>
      <div className="title-row">
        <h2>What is inside {tag.tag || short(tag.digest)}</h2>
        {onDelete && (
          <button className="small" onClick={onDelete}>
            Delete this tag …
          </button>
        )}
      </div>
      <dl className="facts-list">
        <Fact name="Digest">
          <code>{tag.digest}</code>
        </Fact>
        <Fact name="Machine">
          {tag.os}/{tag.architecture}
        </Fact>
        <Fact name="Size">
          {size(tag.size_bytes)}, {tag.layers.length} layer{tag.layers.length === 1 ? "" : "s"}
        </Fact>
        <Fact name="Shell">{shell}</Fact>
        {tag.python_version && <Fact name="Python">{tag.python_version}</Fact>}
        {frameworks.length > 0 && <Fact name="Frameworks">{frameworks.join(", ")}</Fact>}
        {tag.cuda_version && (
          <Fact name="CUDA">
            {tag.cuda_version}
            {tag.require_cuda && (
              <>
                {" "}
                · needs <code>{tag.require_cuda}</code>
              </>
            )}
          </Fact>
        )}
        <Fact name="Entry point">
          <code>{words(tag.entrypoint)}</code>
        </Fact>
        <Fact name="Command">
          <code>{words(tag.command)}</code>
        </Fact>
        <Fact name="User">{visible(tag.user) || "root"}</Fact>
        <Fact name="Working folder">
          <code>{visible(tag.working_dir) || "/"}</code>
        </Fact>
        {tag.created_at !== null && <Fact name="Built"><Moment at={tag.created_at} now={now} /></Fact>}
        <Fact name="Used by">
          {tag.used_by.length === 0
            ? "nobody yet"
            : tag.used_by.map((use) => `${use.account} (${use.jobs} job${use.jobs === 1 ? "" : "s"}, last ${moment(use.last_used_at, now)})`).join(", ")}
        </Fact>
        {tag.live_jobs.length > 0 && (
          <Fact name="In use by">
            {tag.live_jobs.map((job) => (
              <Link key={job} className="chip-link" href={`/jobs/${job}`}>
                {job}
              </Link>
            ))}
          </Fact>
        )}
      </dl>
      {tag.env.length > 0 && (
        <details>
          <summary>Environment ({tag.env.length})</summary>
          <pre className="lines">{tag.env.map(visible).join("\n")}</pre>
        </details>
      )}
      <details>
        <summary>Layers ({tag.layers.length})</summary>
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th>Size</th>
                <th>Made by</th>
                <th>Digest</th>
              </tr>
            </thead>
            <tbody>
              {tag.layers.map((layer, i) => (
                <tr key={i}>
                  <td className="number">{size(layer.size_bytes)}</td>
                  <td className="name">
                    <code>{visible(layer.created_by) || "–"}</code>
                  </td>
                  <td>
                    <code title={layer.digest}>{short(layer.digest)}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
      {detail.may_change && <AddTag ref_={refOf(detail, tag)} />}
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function AddTag({ ref_ }: { ref_: string }) {
  const client = useQueryClient();
  const field = useId();
  const [text, setText] = useState("");
  const add = useAct((name: string) => market.tag(ref_, name), {
    done: () => setText(""),
    after: () => client.invalidateQueries({ queryKey: keys.images }),
  });
  const wrong = text.trim() ? badTag(text.trim()) : "";
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        if (text.trim() && !wrong) add.run(text.trim());
      }}
    >
      <label htmlFor={field}>Another tag for this content</label>{" "}
      <span className="with-button">
        <input id={field} value={text} size={14} spellCheck={false} placeholder="2.5" onChange={(e) => setText(e.target.value)} />
        <button disabled={!text.trim() || wrong !== "" || add.busy}>Add</button>
      </span>
      {wrong && <small className="wrong-text">{wrong}</small>}
      {add.error && <Failure error={add.error} />}
    </form>
  );
}
