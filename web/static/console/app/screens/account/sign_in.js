// Sign-in: with e-mail and password, or with the operator's token for the service as a whole.
import { html } from "../../lib.js";
import { ApiError, endSession, hasExpired, post, send, updateSession } from "../../core/api.js";
import { BASE, query } from "../../core/router.js";
import { Field, Form, Tabs } from "../../ui/ui.js";
import { Door, goOn } from "./door.js";

const signInPerson = async (values) => {
  const { token, user, organizations } = await post("/api/organizations/auth/login/", values);
  updateSession({ kind: "person", token, user, organizations, organization: null });
  goOn();
};

const signInOperator = async ({ token }) => {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await send("GET", "/status/", { headers });
  if (!response.ok) throw new ApiError(response.status === 401 ? 400 : response.status, { token: ["This is not the operator's token."] });
  endSession();
  updateSession({ kind: "operator", token });
  goOn(`${BASE}/service`);
};

const PersonForm = () => html`<${Form} save=${signInPerson} submit="Sign in">
  <${Field} label="E-mail" name="email" type="email" autocomplete="username" required />
  <${Field} label="Password" name="password" type="password" autocomplete="current-password" required />
<//>`;

const OperatorForm = () => html`<${Form} save=${signInOperator} submit="Sign in">
  <${Field}
    label="Operator's token"
    name="token"
    type="password"
    autocomplete="off"
    required
    help="The command hostsvc operator-token prints it on the machine of the service."
  />
<//>`;

/** Show the sign-in. */
export default function SignIn() {
  const who = query.value.as === "operator" ? "operator" : "person";
  const href = (as) => `${BASE}/sign-in?${new URLSearchParams({ ...query.value, as })}`;
  const tabs = [
    { id: "person", label: "Person", href: href("person") },
    { id: "operator", label: "Operator", href: href("operator") },
  ];
  const next = query.value.next ? `?${new URLSearchParams({ next: query.value.next })}` : "";
  const links = html`<a href="${BASE}/sign-up${next}">Create an account</a> · <a href="${BASE}/reset">Forgotten password</a>`;
  return html`<${Door} title="Sign in to hostsvc" links=${links} deps=${[who]}>
    ${hasExpired.value && html`<p class="stale" role="status">Your session has ended. Sign in, and you come back to the same page.</p>`}
    <${Tabs} tabs=${tabs} current=${who} label="Who signs in" />
    ${who === "person" ? html`<${PersonForm} />` : html`<${OperatorForm} />`}
  <//>`;
}
