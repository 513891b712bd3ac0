import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy, useCallback, useEffect, useRef, useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";

import { ApiError, type User, api, body, onSignedOut } from "./api/client";
import { onAccount, tellAccount } from "./api/account-news";
import { type Connection, connection } from "./api/connection";
import { keys, listen } from "./api/events";
import { wakeFiles } from "./api/file-uploads";
import { wakeImages } from "./api/image-uploads";
import { onBack, patiently } from "./api/reach";
import { useStore } from "./api/store";
import { BrokenPart } from "./components/broken-part";
import { AwayBanner } from "./components/kept-answer";
import { Toasts } from "./components/toasts";
import { SignIn } from "./views/sign-in";
import { Home } from "./views/home";
import { Jobs } from "./views/jobs";
import { Nodes } from "./views/nodes";
import { QueueView } from "./views/queue";

// What the first page does not need comes when it is opened, and is waited for while the server is away.
const JobView = lazy(() => patiently(() => import("./views/job")).then((m) => ({ default: m.JobView })));
const Submit = lazy(() => patiently(() => import("./views/submit")).then((m) => ({ default: m.Submit })));
const Images = lazy(() => patiently(() => import("./views/images")).then((m) => ({ default: m.Images })));
const ImageView = lazy(() => patiently(() => import("./views/image")).then((m) => ({ default: m.ImageView })));
const Files = lazy(() => patiently(() => import("./views/files")).then((m) => ({ default: m.Files })));
const Trash = lazy(() => patiently(() => import("./views/trash")).then((m) => ({ default: m.Trash })));
const Datasets = lazy(() => patiently(() => import("./views/datasets")).then((m) => ({ default: m.Datasets })));
const Account = lazy(() => patiently(() => import("./views/account")).then((m) => ({ default: m.Account })));
const Accounts = lazy(() => patiently(() => import("./views/accounts")).then((m) => ({ default: m.Accounts })));
const AccountOf = lazy(() => patiently(() => import("./views/account-of")).then((m) => ({ default: m.AccountOf })));
const Approve = lazy(() => patiently(() => import("./views/approve")).then((m) => ({ default: m.Approve })));
const Audit = lazy(() => patiently(() => import("./views/audit")).then((m) => ({ default: m.Audit })));
const UsageView = lazy(() => patiently(() => import("./views/usage")).then((m) => ({ default: m.UsageView })));
const Help = lazy(() => patiently(() => import("./views/help")).then((m) => ({ default: m.Help })));
const DatasetView = lazy(() => patiently(() => import("./views/dataset")).then((m) => ({ default: m.DatasetView })));

const connectionText: Record<Connection, string> = {
  connecting: "connecting …",
  live: "live",
  broken: "not connected",
};

const isOther = (held: string | null, name: string): boolean => held !== null && held !== name;

/** Nothing of the account before stays, wherever it was kept. */
function beginAnew(): Promise<never> {
  window.location.reload();
  return new Promise(() => undefined);
}

export function App() {
  const client = useQueryClient();
  const [expired, setExpired] = useState(false);
  /** Whose things this page has ever held. */
  const held = useRef<string | null>(null);
  const me = useQuery({
    queryKey: keys.me,
    queryFn: async (): Promise<User | null> => {
      try {
        const fresh = (await body(api.GET("/api/v1/me"))) as User;
        return isOther(held.current, fresh.name) ? await beginAnew() : fresh;
      } catch (error) {
        // A session that has ended while something is on screen is told by the call itself.
        if (error instanceof ApiError && error.status === 401) return client.getQueryData<User | null>(keys.me) ?? null;
        throw error;
      }
    },
    staleTime: Infinity,
    refetchOnWindowFocus: "always",
    refetchInterval: (query) => (query.state.status === "error" ? 5000 : false),
  });
  const user = me.data ?? null;
  const known = user !== null;
  if (user !== null) held.current = user.name;

  // A session that ends while something is on screen asks for the password over it: what was typed stays.
  useEffect(
    () =>
      onSignedOut(() => {
        if (client.getQueryData(keys.me)) setExpired(true);
      }),
    [client],
  );

  // While it was away, nothing was told: all that is on screen is asked for anew.
  useEffect(
    () => onBack(() => void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== "me" || q.state.status === "error" })),
    [client],
  );

  const signedIn = useCallback(
    (fresh: User) => {
      const before = client.getQueryData<User | null>(keys.me);
      if (isOther(held.current, fresh.name)) {
        void beginAnew();
        return;
      }
      client.setQueryData(keys.me, fresh);
      setExpired(false);
      if (before?.name !== fresh.name) return;
      wakeImages();
      wakeFiles();
      void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== "me" });
    },
    [client],
  );
  const signedOut = useCallback((): void => {
    setExpired(false);
    // Not `clear`: what is on screen would hold on to the answer that was cleared away.
    client.setQueryData(keys.me, null);
    client.removeQueries({ predicate: (q) => q.queryKey[0] !== "me" });
  }, [client]);

  // One cookie is for all tabs: who signs in or out in one of them does so in all.
  useEffect(() => {
    const look = async (): Promise<void> => {
      try {
        signedIn((await body(api.GET("/api/v1/me"))) as User);
      } catch {
        // Signed out again meanwhile, or the server is away: looked for when the page is next in front.
      }
    };
    return onAccount((name) => {
      if (name === null) signedOut();
      else if (isOther(held.current, name)) void beginAnew();
      else void look();
    });
  }, [signedIn, signedOut]);

  if (me.isPending) return <main className="lonely">Loading …</main>;
  if (me.data === undefined) {
    return (
      <main className="lonely">
        <p role="alert">{me.error.message}</p>
        <button onClick={() => void me.refetch()}>Try again</button>
      </main>
    );
  }
  const signedInHere = (fresh: User): void => {
    tellAccount(fresh.name);
    signedIn(fresh);
  };
  if (!known) return <SignIn onSignedIn={signedInHere} />;
  return (
    <Shell user={user} expired={expired} onSignedOut={signedOut}>
      {expired && <SignIn over name={user.name} onSignedIn={signedInHere} />}
    </Shell>
  );
}

function Shell({
  user,
  expired,
  onSignedOut,
  children,
}: {
  user: User;
  expired: boolean;
  onSignedOut: () => void;
  children: React.ReactNode;
}) {
  const client = useQueryClient();
  const { state } = useStore(connection);
  const [trouble, setTrouble] = useState("");
  const [at, go] = useLocation();

  useEffect(() => (expired ? undefined : listen(client)), [client, expired]);

  const signOut = async (): Promise<void> => {
    try {
      await api.DELETE("/api/v1/session");
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) {
        setTrouble(`You are still signed in. ${error instanceof Error ? error.message : String(error)}`);
        return;
      }
    }
    tellAccount(null);
    go("/");
    onSignedOut();
  };

  return (
    <>
      <header className="bar">
        <Link href="/" className="brand">
          Headway
        </Link>
        <nav aria-label="Main">
          <Link href="/" className={(active) => (active ? "here" : "")}>
            Home
          </Link>
          <Link href="/jobs" className={(active) => (active ? "here" : "")}>
            Jobs
          </Link>
          <Link href="/submit" className={(active) => (active ? "here" : "")}>
            Submit
          </Link>
          <Link href="/queue" className={(active) => (active ? "here" : "")}>
            Queue
          </Link>
          <Link href="/nodes" className={(active) => (active ? "here" : "")}>
            Nodes
          </Link>
          <Link href="/usage" className={(active) => (active ? "here" : "")}>
            Usage
          </Link>
          <Link href="/images" className={(active) => (active ? "here" : "")}>
            Images
          </Link>
          <Link href="/files" className={(active) => (active ? "here" : "")}>
            Files
          </Link>
          <Link href="/datasets" className={(active) => (active ? "here" : "")}>
            Datasets
          </Link>
          {user.admin && (
            <Link href="/accounts" className={(active) => (active ? "here" : "")}>
              Accounts
            </Link>
          )}
          <Link href="/help" className={(active) => (active ? "here" : "")}>
            Help
          </Link>
        </nav>
        <span className={`connection ${state}`} role="status" title="While this says live, the page shows every change without a reload">
          {connectionText[state]}
        </span>
        <Link href="/account" className={(active) => (active ? "who here" : "who")} title="Your account: password, tokens, sessions, registries, groups">
          {user.name}
        </Link>
        <button className="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
        {trouble && (
          <span className="failure" role="alert">
            {trouble}
          </span>
        )}
      </header>
      <AwayBanner />
      <main>
        <BrokenPart at={at}>
        <Suspense fallback={<p>Loading …</p>}>
          <Switch>
            <Route path="/">
              <Home user={user} />
            </Route>
            <Route path="/jobs">
              <Jobs user={user} />
            </Route>
            <Route path="/submit">
              <Submit user={user} />
            </Route>
            <Route path="/submit/:clone">{({ clone }) => <Submit user={user} clone={clone} key={clone} />}</Route>
            <Route path="/jobs/:id">{({ id }) => <JobView id={id} user={user} key={id} />}</Route>
            <Route path="/jobs/:id/:task">{({ id, task }) => <JobView id={id} task={task} user={user} key={id} />}</Route>
            <Route path="/queue">
              <QueueView user={user} />
            </Route>
            <Route path="/nodes">
              <Nodes admin={user.admin} />
            </Route>
            <Route path="/nodes/:id">{({ id }) => <Nodes admin={user.admin} id={id} key={id} />}</Route>
            <Route path="/usage">
              <UsageView user={user} />
            </Route>
            <Route path="/images">
              <Images user={user} />
            </Route>
            <Route path="/images/:owner/:name">
              {({ owner, name }) => <ImageView owner={owner} name={name} user={user} key={`${owner}/${name}`} />}
            </Route>
            <Route path="/images/:owner/:name/:tag">
              {({ owner, name, tag }) => <ImageView owner={owner} name={name} tag={tag} user={user} key={`${owner}/${name}`} />}
            </Route>
            <Route path="/files">
              <Files user={user} />
            </Route>
            <Route path="/trash">
              <Trash />
            </Route>
            <Route path="/datasets">
              <Datasets />
            </Route>
            <Route path="/datasets/:name">{({ name }) => <DatasetView name={name} user={user} key={name} />}</Route>
            {user.admin && (
              <Route path="/accounts">
                <Accounts />
              </Route>
            )}
            {user.admin && <Route path="/accounts/:name">{({ name }) => <AccountOf name={name} me={user.name} key={name} />}</Route>}
            {user.admin && (
              <Route path="/audit">
                <Audit />
              </Route>
            )}
            <Route path="/approve">
              <Approve user={user} />
            </Route>
            <Route path="/account">
              <Account user={user} />
            </Route>
            <Route path="/help">
              <Help name="start" />
            </Route>
            <Route path="/help/*">{(params) => <Help name={params["*"]} key={params["*"]} />}</Route>
            <Route>
              <h1>There is no such page</h1>
            </Route>
          </Switch>
        </Suspense>
        </BrokenPart>
      </main>
      <Toasts />
      {children}
    </>
  );
}
