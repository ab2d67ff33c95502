// A lost password: a code comes by e-mail or from an operator of the service, and the person chooses a new password.
import { html } from "../../lib.js";
import { post } from "../../core/api.js";
import { BASE } from "../../core/router.js";
import { Field, Form, toast } from "../../ui/ui.js";
import { Door, enter, goOn } from "./door.js";

const reset = async (values) => {
  const { token } = await post("/api/organizations/auth/reset/", values);
  await enter(token);
  goOn();
};

const sendCode = async ({ currentTarget }) => {
  try {
    await post("/api/organizations/auth/reset/request/", { email: currentTarget.form.elements.email.value });
    toast("If there is an account with this address, a code is on its way.");
  } catch (error) {
    toast(error.sentence ?? error.message, { tone: "bad" });
  }
};

/** Show the form for a new password, which can also ask for the code. */
export default function Reset() {
  return html`<${Door} title="Choose a new password" links=${html`<a href="${BASE}/sign-in">Sign in instead</a>`}>
    <p class="muted">
      You need a code, which is valid for an hour. If the service sends no e-mail, ask its operator: the command
      <code>hostsvc accounts reset-password</code> prints one.
    </p>
    <${Form} save=${reset} submit="Set password" actions=${html`<button type="button" onClick=${sendCode}>E-mail me a code</button>`}>
      <${Field} label="E-mail" name="email" type="email" autocomplete="username" required />
      <${Field} label="Code" name="code" autocomplete="one-time-code" required />
      <${Field} label="New password" name="new_password" type="password" autocomplete="new-password" required help="8 to 128 characters." />
    <//>
  <//>`;
}
