// An invite: its code stands behind the # of the address, which browsers send to no server.
import { html } from "../../lib.js";
import { endSession, isOperator, post, session, updateSession } from "../../core/api.js";
import { BASE } from "../../core/router.js";
import { Field, Form } from "../../ui/ui.js";
import { Door, enter, goOn } from "./door.js";

const accept = async (id, body) => {
  const { token, organization } = await post(`/api/organizations/invites/${encodeURIComponent(id)}/accept/`, body);
  await enter(token, organization.id);
  goOn();
};

/** Accept with a password. The request must not name the person who is signed in, who may be another one. */
const acceptWithPassword = async (id, body) => {
  const before = session.peek();
  endSession();
  try {
    await accept(id, body);
  } catch (error) {
    if (before) updateSession(before);
    throw error;
  }
};

const WithSession = ({ id, code }) => html`<${Form} save=${(values) => accept(id, values)} submit="Accept as ${session.value.user.email}">
  <input type="hidden" name="code" value=${code} />
<//>`;

/** Show an invite and the ways to accept it. */
export default function Invite({ id }) {
  const code = decodeURIComponent(location.hash.slice(1));
  const isSignedIn = session.value?.user && !isOperator.value;
  return html`<${Door} title="Accept an invite" links=${html`<a href="${BASE}/">Go to the console</a>`}>
    ${isSignedIn && code && html`<${WithSession} id=${id} code=${code} /><h2 class="door-or">Or with another account</h2>`}
    <${Form} save=${(values) => acceptWithPassword(id, values)} submit="Accept">
      <${Field} label="Code" name="code" value=${code} autocomplete="off" required />
      <${Field}
        label="Password"
        name="password"
        type="password"
        autocomplete="current-password"
        required
        help="The one of your account with the invited e-mail address. If there is no account yet, choose one of 8 to 128 characters."
      />
      <${Field} label="Your name" name="name" autocomplete="name" help="For a new account; may be left out." />
    <//>
  <//>`;
}
