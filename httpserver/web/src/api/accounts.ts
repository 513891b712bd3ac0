/** One's own password, tokens and sessions; and all accounts, for admins. */
import { JOB_TONES } from "./generated/states";
import { type JobState, type User, api, body } from "./client";
import { keys } from "./events";
import type { components } from "./generated/schema";
import { jobEnded } from "../domain/states";

type Schemas = components["schemas"];
export type ListedUser = Schemas["ListedUser"];
export type Token = Schemas["Token"];
export type TokenMade = Schemas["TokenCreated"];
export type Session = Schemas["AccountSession"];
export type OwnSession = Schemas["OwnSession"];
export type UserPatch = Schemas["UserPatch"];
export type UserCreate = Schemas["UserCreate"];
export type Kind = "tokens" | "sessions";
export type HomeFate = "keep" | "hand_over" | "delete";

/** Own ones, and by name those of others. */
export const held = (kind: Kind, name = ""): readonly string[] => ["held", kind, name];
export const ownKeys = { tokens: held("tokens"), sessions: held("sessions") };
export const accountList = [...keys.accounts, "list"] as const;

export const own = {
  changePassword: (current: string, fresh: string) => body(api.POST("/api/v1/me/password", { body: { current, new: fresh } })),
  tokens: async (): Promise<readonly Token[]> => (await body(api.GET("/api/v1/tokens"))).tokens,
  /** Its value comes with this answer and never again. */
  makeToken: (name: string, expires_in_s: number | null) => body(api.POST("/api/v1/tokens", { body: { name, expires_in_s } })),
  deleteToken: (id: string) => body(api.DELETE("/api/v1/tokens/{id}", { params: { path: { id } } })),
  sessions: async (): Promise<readonly OwnSession[]> => (await body(api.GET("/api/v1/sessions"))).sessions,
  endSession: (id: string) => body(api.DELETE("/api/v1/sessions/{id}", { params: { path: { id } } })),
  endOthers: () => body(api.DELETE("/api/v1/sessions")),
};

export const MOST_COUNTED = 200;
const LIVE = (Object.keys(JOB_TONES) as JobState[]).filter((state) => !jobEnded(state));

const at = (name: string) => ({ params: { path: { name } } });

/** What admins do. */
export const accounts = {
  list: async (): Promise<readonly ListedUser[]> => (await body(api.GET("/api/v1/users"))).users,
  create: (wanted: UserCreate) => body(api.POST("/api/v1/users", { body: wanted })),
  change: (name: string, wanted: Partial<UserPatch>): Promise<User> =>
    body(api.PATCH("/api/v1/users/{name}", { ...at(name), body: wanted as UserPatch })),
  resetPassword: (name: string, keep_tokens: boolean) => body(api.POST("/api/v1/users/{name}/password", { ...at(name), body: { keep_tokens } })),
  remove: (name: string, home: HomeFate, to: string) =>
    body(api.DELETE("/api/v1/users/{name}", { params: { path: { name }, query: { home, ...(to ? { to } : {}) } } })),
  held: async (name: string, kind: Kind): Promise<readonly (Token | Session)[]> =>
    kind === "tokens" ? (await body(api.GET("/api/v1/users/{name}/tokens", at(name)))).tokens : (await body(api.GET("/api/v1/users/{name}/sessions", at(name)))).sessions,
  end: (name: string, kind: Kind, id: string) =>
    kind === "tokens"
      ? body(api.DELETE("/api/v1/users/{name}/tokens/{id}", { params: { path: { name, id } } }))
      : body(api.DELETE("/api/v1/users/{name}/sessions/{id}", { params: { path: { name, id } } })),
  endAll: (name: string, kind: Kind) =>
    kind === "tokens" ? body(api.DELETE("/api/v1/users/{name}/tokens", at(name))) : body(api.DELETE("/api/v1/users/{name}/sessions", at(name))),
  /** How many of its jobs have not ended, up to MOST_COUNTED. */
  liveJobs: async (owner: string): Promise<number> =>
    (await body(api.GET("/api/v1/jobs", { params: { query: { owner, state: LIVE, limit: MOST_COUNTED } } }))).jobs.length,
};
