/** What went wrong in a call, in the server's own words. Each API has an error envelope of its own; this is the one form of all. */
export class Fault extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** Sentences for fields, by their paths: `width`, `messages/0/content`. */
    readonly fields: Readonly<Record<string, string>> = {},
    readonly requestId: string | null = null,
    /** When the server asks to try again; `null` where it does not. */
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
  }

  /** Whether the session has ended, or its key was revoked. */
  get isSignedOut(): boolean {
    return this.status === 401;
  }
}

/** The server could not be reached at all. */
export class ConnectionLost extends Fault {
  constructor() {
    super(0, "The server cannot be reached. The console keeps trying.");
  }
}

const BY_STATUS: Record<number, string> = {
  401: "You are signed out.",
  403: "Your role does not allow this.",
  404: "It does not exist, or it belongs to another workspace.",
  413: "This is too large.",
  429: "Too many requests. Try again in a moment.",
  503: "The server is busy. Try again in a moment.",
};

interface Violation {
  loc: (string | number)[];
  msg: string;
}

/** Read the error answer of any API of the server. */
export async function readFault(answer: Response): Promise<Fault> {
  const requestId =
    [...answer.headers].find(([name]) => name.endsWith("-request-id"))?.[1] ?? null;
  let document: unknown = null;
  try {
    document = await answer.clone().json();
  } catch {
    // An answer without JSON, such as the page of a proxy, has only its status.
  }
  const retryAfter = Number(answer.headers.get("retry-after") ?? NaN);
  const { status, message, fields, requestId: id } = faultOf(answer.status, document, requestId);
  return new Fault(status, message, fields, id, Number.isFinite(retryAfter) ? retryAfter : null);
}

export function faultOf(status: number, document: unknown, requestId: string | null): Fault {
  const usual = BY_STATUS[status] ?? `The server answered with status ${status}.`;
  if (!isRecord(document)) {
    return new Fault(status, usual, {}, requestId);
  }
  const { detail, error, node_errors: nodeErrors } = document;
  if (Array.isArray(detail)) {
    const fields = fieldsOf(detail as Violation[]);
    const [path, message] = Object.entries(fields)[0] ?? ["", usual];
    return new Fault(status, path ? `${path}: ${message}` : message, fields, requestId);
  }
  if (typeof detail === "string") {
    return new Fault(status, detail, {}, requestId);
  }
  if (isRecord(error)) {
    const message = text(error.message) ?? usual;
    const field = text(error.field);
    const fields = field ? { [field]: message } : nodeFields(nodeErrors);
    return new Fault(status, message, fields, text(error.request_id) ?? requestId);
  }
  return new Fault(status, text(document.message) ?? usual, {}, requestId);
}

function fieldsOf(violations: Violation[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const { loc, msg } of violations) {
    const path = loc.slice(loc[0] === "body" ? 1 : 0).join("/");
    fields[path] = fields[path] ? `${fields[path]} ${msg}` : msg;
  }
  return fields;
}

/** Errors of the nodes of a workflow, by `node/input`. */
function nodeFields(nodes: unknown): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const [node, found] of Object.entries(isRecord(nodes) ? nodes : {})) {
    const errors = isRecord(found) && Array.isArray(found.errors) ? found.errors : [];
    for (const one of errors) {
      const input = isRecord(one.extra_info) ? (text(one.extra_info.input_name) ?? "") : "";
      fields[`${node}/${input}`] = [text(one.message), text(one.details)].filter(Boolean).join(": ");
    }
  }
  return fields;
}

export function isRecord(value: unknown): value is Record<string, any> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
