// Requests to the documented API. Each refusal becomes an error whose sentence says what to do.
import { computed, signal } from "../lib.js";

// Who is signed in. The token lives in sessionStorage: it ends with the tab, and no request carries it by itself.

const KEY = "hostsvc.session";

const read = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
};

/** The session: `{kind: "person"|"operator", token, user, organizations, organization}`, or null. */
export const session = signal(read());
export const isOperator = computed(() => session.value?.kind === "operator");
/** The organization that new things belong to: `{id, name, role}`; null for operators. */
export const organization = computed(() => {
  const { organizations = [], organization: id } = session.value ?? {};
  return organizations.find((one) => one.id === id) ?? organizations[0] ?? null;
});
/** Whether the person may change what admins change, in the chosen organization. */
export const isAdmin = computed(() => ["owner", "admin"].includes(organization.value?.role));

/** Whether the last session ended because the service refused its token. */
export const hasExpired = signal(false);

/** Start a session, or replace parts of the present one. */
export const updateSession = (changes) => {
  hasExpired.value = false;
  session.value = { ...session.value, ...changes };
  sessionStorage.setItem(KEY, JSON.stringify(session.value));
};

/** End the session; the sign-in screen appears and leads back to the same address. */
export const endSession = () => {
  sessionStorage.removeItem(KEY);
  hasExpired.value = false;
  session.value = null;
};

/** End a session whose token the service refuses; the sign-in screen says so. */
export const expireSession = () => {
  if (!session.peek()) return;
  endSession();
  hasExpired.value = true;
};

const ADVICE = {
  0: "The service does not answer. The page goes on as soon as it does.",
  401: "Your session has ended. Sign in again.",
  403: "Your role does not allow this. An owner or admin of the organization can do it, or change your role.",
  404: "It does not exist, or was deleted. Go back to the list and choose another.",
  409: "Its state does not allow this. Reload, and look at what has changed.",
  413: "It is too large. Make it shorter.",
  422: "The same request was sent before with other contents. Reload, and try again.",
  429: "There were too many requests. Wait a moment, and try again.",
  503: "The service cannot do this at the moment. Try again in a few seconds.",
};

/** A request that failed; `status` 0 without an answer, `fields` has the messages by field. */
export class ApiError extends Error {
  constructor(status, body, isSessionOver = false) {
    const { detail, ...fields } = body && typeof body === "object" && !Array.isArray(body) ? body : {};
    super(typeof detail === "string" ? detail : "");
    this.status = status;
    this.fields = status === 400 ? fields : {};
    this.isSessionOver = isSessionOver;
  }

  get sentence() {
    const said = this.isSessionOver || this.message === "Not found." ? "" : this.message;
    const isRefusal = this.status === 401 && !this.isSessionOver;
    const failed = this.status >= 500 ? "The service failed. Try again." : "";
    const advice = isRefusal ? "" : (ADVICE[this.status] ?? failed);
    const fields = Object.entries(this.fields).map(([name, text]) => `${name}: ${flatten(text)}`);
    return [said, ...(said ? [] : fields), advice].filter(Boolean).join(" ");
  }
}

/** Return the messages of a refusal, however they are nested, as one text. */
export const flatten = (value) =>
  typeof value === "object" && value ? Object.values(value).map(flatten).join(" ") : String(value);

/** Return the query string of an object: lists repeat their name, null and "" are left out. */
export const queryString = (query = {}) => {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter((one) => one != null && one !== "").map((one) => [name, one]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
};

/** Return the token of a link to an approval, by which a webhook has led here; it takes the place of a session. */
export const linkToken = () => (/\/approvals\/./.test(location.pathname) ? (/^#token=([\w.-]+)$/.exec(location.hash)?.[1] ?? null) : null);

const headersFor = (path, hasBody) => {
  const headers = { Accept: "application/json" };
  const isApproval = path.startsWith("/api/defaults/approval"); // of any organization of the person
  const link = isApproval && linkToken();
  if (link) headers.Authorization = `Approval ${link}`;
  else if (session.value) headers.Authorization = `${isOperator.value ? "Bearer" : "Token"} ${session.value.token}`;
  if (organization.value && !isApproval) headers["X-Organization"] = organization.value.id;
  if (hasBody) headers["Content-Type"] = "application/json";
  return headers;
};

/** Send a request and return the response, whatever its status; throw ApiError(0) without one. */
export const send = async (method, path, { query, body, signal, headers } = {}) => {
  try {
    return await fetch(path + queryString(query), {
      method,
      signal,
      headers: { ...headersFor(path, body !== undefined), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(0);
  }
};

const answer = async (method, path, options) => {
  const response = await send(method, path, options);
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new ApiError(response.status, { detail: "The answer is not JSON." });
  }
  if (response.ok) return { body, response };
  const isSessionOver = response.status === 401 && session.value !== null && !linkToken();
  if (isSessionOver) expireSession();
  throw new ApiError(response.status, body, isSessionOver);
};

const bodyOf = async (promise) => (await promise).body;

/** Read a resource. `signal` cancels the request. */
export const get = (path, query, signal) => bodyOf(answer("GET", path, { query, signal }));
/** Create or act. Each call has an idempotency key of its own, so a repeated packet creates nothing twice. */
export const post = (path, body = {}, query) =>
  bodyOf(answer("POST", path, { body, query, headers: { "Idempotency-Key": newKey() } }));
/** Change the fields that the body contains. */
export const patch = (path, body) => bodyOf(answer("PATCH", path, { body }));
/** Delete a resource. */
export const del = (path, query) => bodyOf(answer("DELETE", path, { query }));

/** Read one page of a list: `{items, next}`, where `next` is the query of the next page, or null. */
export const getPage = async (path, query, signal) => {
  const { body, response } = await answer("GET", path, { query, signal });
  const link = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get("Link") ?? "");
  const after = link && new URL(link[1], location.href).searchParams.get("after");
  return { items: body, next: after ? { ...query, after } : null, headers: response.headers };
};

const newKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (one) => one.toString(16)).join("");
