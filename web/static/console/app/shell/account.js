// Who is signed in, and in which organization new things are created.
import { html } from "../lib.js";
import { post } from "../core/api.js";
import { plain } from "../core/plain.js";
import { endSession, isOperator, organization, session, updateSession } from "../core/session.js";

const signOut = async () => {
  if (!isOperator.value) await post("/api/organizations/auth/logout/").catch(() => null);
  endSession();
};

/** Show the organization and the person, with the way out. */
export const Account = () => {
  const { organizations = [], user } = session.value;
  const chosen = organization.value?.id;
  const choose = (event) => updateSession({ organization: event.target.value });
  return html`<div class="account">
    ${organizations.length > 1
      ? html`<select aria-label="Organization" onChange=${choose}>
          ${organizations.map(({ id, name }) => html`<option value=${id} selected=${id === chosen}>${plain(name)}</option>`)}
        </select>`
      : html`<bdi class="line">${isOperator.value ? "Operator" : organization.value?.name}</bdi>`}
    <button class="quiet" title=${user?.email ?? "The operator's token"} onClick=${signOut}>Sign out</button>
  </div>`;
};
