/** The typed door to the API; types are generated from openapi.json by `npm run generate`. */
import createClient, { type Middleware } from "openapi-fetch";

import type { components, paths } from "./generated/schema";

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

const AWAY = "Headway does not answer. Check your connection, and whether the server runs.";
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
    if (given) throw new ApiError(silent(init.method ?? (input instanceof Request ? input.method : "GET")), 0, "no-answer");
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

const failures: Middleware = {
  async onResponse({ request, response }) {
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
  onError({ error }) {
    if (error instanceof ApiError) return error;
    return new ApiError(AWAY, 0, "no-service");
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
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") words.set(name, String(value));
  const search = words.size > 0 ? `?${words}` : "";
  let response: Response;
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
    throw new ApiError(AWAY, 0, "no-service");
  }
  if (response.ok) return response;
  if (response.status === 401 && !quiet) tellSignedOut();
  throw toApiError(await response.json().catch(() => null), response.status);
}

export async function askJson<T>(method: string, path: string, more: Ask = {}): Promise<T> {
  return (await (await ask(method, path, more)).json()) as T;
}
