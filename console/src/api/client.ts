import createClient, { type Middleware } from "openapi-fetch";
import { ConnectionLost, readFault } from "./faults";
import { reportLoss } from "./connection";
import type { paths } from "./schema";

/** What every call carries in addition to the cookie of the session: the workspace that it is for, and proof that a page of ours makes it. */
const credentials = { csrfToken: "", workspace: "" };
const signedOutListeners = new Set<() => void>();

export function setCsrfToken(token: string): void {
  credentials.csrfToken = token;
}

export function setWorkspace(name: string): void {
  credentials.workspace = name;
}

export function currentWorkspace(): string {
  return credentials.workspace;
}

/** Call a function when an answer says that the session has ended. */
export function onSignedOut(listener: () => void): () => void {
  signedOutListeners.add(listener);
  return () => signedOutListeners.delete(listener);
}

function addHeaders(headers: Headers, method: string): void {
  if (credentials.workspace && !headers.has("X-Fairlead-Workspace")) {
    headers.set("X-Fairlead-Workspace", credentials.workspace);
  }
  if (method !== "GET" && method !== "HEAD") {
    headers.set("X-CSRF-Token", credentials.csrfToken);
  }
}

/** `fetch` with the console's headers: the answer, or a Fault. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  addHeaders(headers, init.method ?? "GET");
  return check(await reach(() => fetch(path, { ...init, headers, credentials: "same-origin" })), path);
}

export async function sendJson(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Content-Type", "application/json");
  return send(path, { method: "POST", ...init, headers, body: JSON.stringify(body) });
}

async function reach(ask: () => Promise<Response>): Promise<Response> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    reportLoss();
    throw new ConnectionLost();
  }
}

async function check(answer: Response, path: string): Promise<Response> {
  if (answer.ok) {
    return answer;
  }
  const isLogin = ["sessions", "me", "invitations"].some((name) => path.startsWith(`/api/admin/v1/${name}`));
  if (answer.status === 401 && !isLogin) {
    for (const listener of signedOutListeners) {
      listener();
    }
  }
  throw await readFault(answer);
}

const middleware: Middleware = {
  onRequest({ request }) {
    addHeaders(request.headers, request.method);
    return request;
  },
  async onResponse({ request, response }) {
    await check(response, new URL(request.url).pathname);
    return response;
  },
};

/** The typed client: paths, parameters and answers are those of /openapi.json. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: "same-origin",
  fetch: (request: Request) => reach(() => fetch(request)),
});
api.use(middleware);

/** The document of an answer of the typed client; an error answer was thrown before. */
export async function documentOf<T>(asked: Promise<{ data?: T }>): Promise<T> {
  return (await asked).data as T;
}
