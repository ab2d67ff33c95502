// A lost password: an operator of the service hands out a code, and the person chooses a new password.
import { html } from "../../lib.js";
import { post } from "../../core/api.js";
import { BASE } from "../../core/router.js";
import { Field, Form } from "../../ui/ui.js";
import { Door, enter, goOn } from "./door.js";

const reset = async (values) => {
  const { token } = await post("/api/organizations/auth/reset/", values);
  await enter(token);
  goOn();
};

/** Show the form for a new password. */
export default function Reset() {
  return html`<${Door} title="Choose a new password" links=${html`<a href="${BASE}/sign-in">Sign in instead</a>`}>
    <p class="muted">
      Ask the operator of the service for a code: the command <code>hostsvc accounts reset-password</code> prints one. It is
      valid for an hour.
    </p>
    <${Form} save=${reset} submit="Set password">
      <${Field} label="E-mail" name="email" type="email" autocomplete="username" required />
      <${Field} label="Code" name="code" autocomplete="one-time-code" required />
      <${Field} label="New password" name="new_password" type="password" autocomplete="new-password" required help="8 to 128 characters." />
    <//>
  <//>`;
}
