// The bar above all screens: whether the page follows the service, the zone of all times, and who is signed in.
import { html } from "../lib.js";
import { post } from "../core/api.js";
import { isFrozen, live, toggleFrozen } from "../core/live.js";
import { plain } from "../core/plain.js";
import { endSession, isOperator, organization, session, updateSession } from "../core/session.js";
import { chooseZone, formatInstant, zone } from "../core/time.js";

const words = () => {
  const { state, asOf } = live.value;
  const time = asOf ? formatInstant(asOf, null, "time") : "";
  if (isFrozen.value) return ["frozen", `as of ${time}`];
  if (state === "live") return ["live", "live"];
  if (state === "connecting") return ["reconnecting", "connecting"];
  return ["reconnecting", asOf ? `reconnecting, as of ${time}` : "reconnecting"];
};

/** Show whether the page is live; pressing it stops the page from changing. */
export const LiveBadge = () => {
  const [state, text] = words();
  const title = isFrozen.value ? "Let the page change again" : "Stop the page from changing";
  return html`<button class="live live-${state}" title=${title} onClick=${toggleFrozen}>
    <span aria-live="polite">${text}</span>
  </button>`;
};

const ZONES = [["agent", "Agent's time"], ["utc", "UTC"], ["local", "My time"]];

/** Choose whose time the console shows. */
export const ZoneChoice = () => html`<select
  class="zone"
  aria-label="Time zone of all times"
  onChange=${(event) => chooseZone(event.target.value)}
>
  ${ZONES.map(([value, label]) => html`<option value=${value} selected=${value === zone.value}>${label}</option>`)}
</select>`;

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
