/** The typed door to the API; types are generated from openapi.json by `npm run generate`. */
import createClient, { type Middleware } from "openapi-fetch";

import type { components, paths } from "./generated/schema";
import { LONG_MS, awaySince, isForeign, noteAnswer, noteSilence } from "./reach";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type JobDetail = Schemas["JobDetail"];
export type Task = Schemas["Task"];
export type TaskSpec = Schemas["SubmittedTask"];
export type Reason = Schemas["Reason"];
export type Attempt = Schemas["Attempt"];
export type Submitted = Schemas["Submitted"];
export type Node = Schemas["Node"];
export type NodeList = Schemas["NodeList"];
export type Booking = Schemas["TaskBooking"];
export type GpuState = Schemas["GpuState"];
export type Queue = Schemas["Queue"];
export type Scheduling = Schemas["Scheduling"];
export type Decision = Schemas["Decision"];
export type Preview = Schemas["Preview"];
export type PreviewStart = Schemas["PreviewStart"];
export type TimeoutAdvice = Schemas["TimeoutAdvice"];
export type User = Schemas["User"];
export type Problem = Schemas["Problem"];
export type ProblemItem = Schemas["ProblemItem"];
export type JobState = Schemas["JobState"];
export type TaskState = Schemas["TaskState"];
export type AttemptState = Schemas["AttemptState"];
export type NodeHealth = Schemas["NodeHealth"];
export type Admission = Schemas["Admission"];
export type NeedOn = Schemas["NeedOn"];
export type LogStream = Schemas["LogStream"];
export type LogLinePlace = Schemas["LogLine"];
export type LogTimes = Schemas["LogTimes"];

/** Any refusal of the server, and a server that does not answer. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly slug: string,
    readonly problems: readonly ProblemItem[] = [],
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The slug of what nobody of Headway said. */
const NO_SERVICE = "no-service";

const silence = (): ApiError => new ApiError("Headway does not answer. Check your connection, and whether the server runs.", 0, NO_SERVICE);

/** The server was not reached: it said neither yes nor no. */
export const isSilence = (error: unknown): boolean => error instanceof ApiError && error.slug === NO_SERVICE;

/** The server's own word that there is nothing (more) to show: what was shown before is not true any more. */
export const isFinal = (error: unknown): boolean =>
  error instanceof ApiError && [400, 403, 404, 410, 422].includes(error.status) && error.slug !== "unknown" && error.slug !== NO_SERVICE;

/** How soon what got no answer is asked for again, when nothing else asks; false: it got one. */
export const untilAnswered = ({ state }: { readonly state: { readonly status: string; readonly error: unknown } }): number | false =>
  state.status === "error" && !isFinal(state.error) ? 10_000 : false;

/** What came instead of an answer of Headway's. */
function foreign(status: number): ApiError {
  noteSilence();
  const what = status >= 400 ? `a proxy on the way answered ${status}` : "something else answered at its address";
  return new ApiError(`Headway does not answer: ${what}.`, status, NO_SERVICE);
}

export function toApiError(body: unknown, status: number): ApiError {
  if (typeof body === "object" && body !== null && "detail" in body) {
    const problem = body as Problem;
    return new ApiError(problem.detail || problem.title, status, problem.slug, problem.errors ?? []);
  }
  return new ApiError(`The server answered ${status}.`, status, "unknown");
}

const signedOut = new Set<() => void>();

/** Calls back whenever a call was refused because the session is over. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/** For calls that don't go through `api`. */
export function tellSignedOut(): void {
  signedOut.forEach((listener) => listener());
}

/** A server that lives has said something by then. */
export const SILENCE_MS = 30_000;

const silent = (method: string): string =>
  method === "GET" || method === "HEAD"
    ? `Headway has not answered for ${SILENCE_MS / 1000} s. Check your connection, and whether the server runs.`
    : `Headway has not answered for ${SILENCE_MS / 1000} s, so nobody knows whether this was done. Look before you do it again.`;

/** Fetches, and gives up on silence: a call that hangs must not look like one that is being done. */
export async function fetchOrGiveUp(input: Request | string, init: RequestInit = {}): Promise<Response> {
  const own = init.signal ?? (input instanceof Request ? input.signal : null);
  const stop = new AbortController();
  const abort = (): void => stop.abort(own?.reason);
  own?.addEventListener("abort", abort);
  if (own?.aborted) abort();
  let given = false;
  const timer = setTimeout(() => {
    given = true;
    stop.abort();
  }, SILENCE_MS);
  try {
    return await fetch(input, { ...init, signal: stop.signal });
  } catch (error) {
    if (given) throw new ApiError(silent(init.method ?? (input instanceof Request ? input.method : "GET")), 0, NO_SERVICE);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Calls that are under way: one that takes long may have no server any more. */
const slow = new Map<string, ReturnType<typeof setTimeout>>();
const answered = (id: string): void => {
  clearTimeout(slow.get(id));
  slow.delete(id);
};

/** While the server is away the hub alone asks for it. What a person presses is tried all the same. */
const isVain = (method: string): boolean => awaySince.value !== null && (method === "GET" || method === "HEAD");

const failures: Middleware = {
  onRequest({ id, request }) {
    if (isVain(request.method)) throw silence();
    slow.set(id, setTimeout(noteSilence, LONG_MS));
    return undefined;
  },
  async onResponse({ id, request, response }) {
    answered(id);
    if (isForeign(response)) throw foreign(response.status);
    noteAnswer();
    if (response.ok) return response;
    let body: unknown = null;
    try {
      body = await response.clone().json();
    } catch {
      // not JSON: a proxy's own page
    }
    if (response.status === 401 && !request.url.endsWith("/session")) tellSignedOut();
    throw toApiError(body, response.status);
  },
  onError({ id, error }) {
    answered(id);
    if (error instanceof ApiError) return error;
    if (error instanceof DOMException && error.name === "AbortError") return error;
    noteSilence();
    return silence();
  },
};

export const api = createClient<paths>({ baseUrl: "", fetch: (request) => fetchOrGiveUp(request) });
api.use(failures);

/** The body of a call that can't fail silently: failures were thrown by the middleware. */
export async function body<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  return data as T;
}

interface Ask {
  readonly query?: { readonly [name: string]: string | number | boolean | undefined };
  readonly json?: unknown;
  readonly body?: BodyInit;
  readonly headers?: { readonly [name: string]: string };
  readonly signal?: AbortSignal;
  /** What nobody asked for by a press opens no sign-in over what is being written. */
  readonly quiet?: boolean;
}

/**
 * A call that the generated client can't say: exact names of files in the address, streams, headers of the answer.
 * `path` comes after /api/v1 and is sent as it is.
 */
export async function ask(method: string, path: string, { query = {}, json, body, headers = {}, signal, quiet = false }: Ask = {}): Promise<Response> {
  if (isVain(method)) throw silence();
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") words.set(name, String(value));
  const search = words.size > 0 ? `?${words}` : "";
  let response: Response;
  const long = body === undefined ? setTimeout(noteSilence, LONG_MS) : undefined;
  try {
    // What carries a file is silent while it is sent.
    response = await (body === undefined ? fetchOrGiveUp : fetch)(`/api/v1${path}${search}`, {
      method,
      headers: { ...(json === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      ...(json === undefined ? (body === undefined ? {} : { body }) : { body: JSON.stringify(json) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (signal?.aborted || error instanceof ApiError) throw error;
    noteSilence();
    throw silence();
  } finally {
    clearTimeout(long);
  }
  if (isForeign(response)) throw foreign(response.status);
  noteAnswer();
  if (response.ok) return response;
  if (response.status === 401 && !quiet) tellSignedOut();
  throw toApiError(await response.json().catch(() => null), response.status);
}

export async function askJson<T>(method: string, path: string, more: Ask = {}): Promise<T> {
  return (await (await ask(method, path, more)).json()) as T;
}
