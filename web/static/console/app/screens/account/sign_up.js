// Sign-up: a person with a new organization.
import { html } from "../../lib.js";
import { ApiError, post } from "../../core/api.js";
import { BASE, query } from "../../core/router.js";
import { Field, Form } from "../../ui/ui.js";
import { Door, enter, goOn } from "./door.js";

const CLOSED = "This service is closed to new accounts. Ask somebody whose organization you want to join for an invite.";

const signUp = async (values) => {
  const { token, organization } = await post("/api/organizations/auth/signup/", values).catch((error) => {
    throw error.status === 403 ? new ApiError(400, { detail: CLOSED }) : error;
  });
  await enter(token, organization.id);
  goOn(`${BASE}/start`);
};

/** Show the sign-up. */
export default function SignUp() {
  const next = query.value.next ? `?${new URLSearchParams({ next: query.value.next })}` : "";
  return html`<${Door} title="Create an account" links=${html`<a href="${BASE}/sign-in${next}">Sign in instead</a>`}>
    <p class="muted">You get an organization of your own, and can invite others to it.</p>
    <${Form} save=${signUp} submit="Create account">
      <${Field} label="E-mail" name="email" type="email" autocomplete="username" required />
      <${Field} label="Password" name="password" type="password" autocomplete="new-password" required help="8 to 128 characters." />
      <${Field} label="Your name" name="name" autocomplete="name" help="May be left out." />
      <${Field} label="Organization" name="organization_name" autocomplete="organization" required help="Such as your company; others see this name." />
    <//>
  <//>`;
}
