// People and keys: who may do what in the organization, and the person's own account.
import { html } from "../../lib.js";
import { get, post } from "../../core/api.js";
import { useGet } from "../../core/resource.js";
import { query } from "../../core/router.js";
import { isAdmin, organization, session, updateSession } from "../../core/session.js";
import { AdminNote, ResourceForm } from "../../ui/resources.js";
import { Field, Form, Line, Loaded, Page, Table, Tabs, toast } from "../../ui/ui.js";
import { Invites, Keys } from "./access.js";
import { Members } from "./members.js";

const ORGANIZATIONS = "/api/organizations/organizations/";

const refresh = async () => updateSession({ organizations: (await get("/api/organizations/auth/me/")).organizations });

const groups = [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255 },
      { name: "max_cost_usd_per_day", label: "Cap of all agents (US dollars a day)", type: "number", min: 0, help: "Blank: no cap. 0 allows no run." },
      {
        name: "unpriced",
        label: "Models without a known price",
        type: "select",
        options: [["refuse", "refused under the cap"], ["allow", "allowed under the cap"]],
      },
      { name: "phone_region", label: "Region of phone numbers", maxlength: 2, help: "Two capital letters such as AT, for numbers without a country code." },
      { name: "paused", label: "Paused: none of its agents starts", type: "checkbox" },
    ],
  },
];

const LIMIT_COLUMNS = [
  { title: "Limit", cell: ({ name }) => name.replaceAll("_", " ") },
  { title: "For each", cell: (row) => row.per },
  { title: "In use", number: true, cell: ({ used }) => used?.toLocaleString("en") ?? "–" },
  { title: "Maximum", number: true, cell: ({ limit }) => limit?.toLocaleString("en") ?? "none" },
  {
    title: "Share",
    cell: ({ used, limit, name }) => used != null && limit && html`<meter aria-label="Use of ${name}" min="0" max=${limit} high=${limit * 0.8} value=${used} />`,
  },
];

const Organization = () => {
  const { id } = organization.value;
  const found = useGet(`${ORGANIZATIONS}${id}/`, {}, { events: ["organization.*"] });
  const limits = useGet("/api/organizations/limits/", {}, { every: 15 });
  const saved = () => Promise.all([refresh(), found.reload()]);
  return html`<div class="stack">
    <${AdminNote}>Only admins and owners change the organization.<//>
    <${Loaded} of=${found}>
      ${(data) => html`<section class="card"><fieldset class="people-fields" disabled=${!isAdmin.value}><${ResourceForm} key=${id} path=${ORGANIZATIONS} resource=${data} groups=${groups} saved=${saved} /></fieldset></section>`}
    <//>
    <h2>Limits</h2>
    <${Loaded} of=${limits}>${(data) => html`<${Table} columns=${LIMIT_COLUMNS} rows=${data.limits} id=${(row) => row.name} label="Limits" />`}<//>
  </div>`;
};

const Account = () => {
  const { user, organizations } = session.value;
  const change = async ({ name, ...values }) => {
    const { token } = await post("/api/organizations/auth/password/", values);
    updateSession({ token });
    toast("The password is changed. All other sessions have ended.");
  };
  const found = async (values) => {
    const made = await post(ORGANIZATIONS, values);
    await refresh();
    updateSession({ organization: made.id });
    toast("The organization is created, and chosen.");
  };
  return html`<div class="columns">
    <section class="card">
      <h2>Password of <${Line} value=${user.email} /></h2>
      <${Form} save=${change} submit="Change password">
        <input class="hidden" name="name" autocomplete="username" value=${user.email} tabindex="-1" aria-hidden="true" readonly />
        <${Field} name="current_password" label="Current password" type="password" autocomplete="current-password" />
        <${Field} name="new_password" label="New password" type="password" autocomplete="new-password" help="8 to 128 characters." />
      <//>
    </section>
    <div><section class="card">
      <h2>Your organizations</h2>
      <ul class="people-organizations">
        ${organizations.map(
          ({ id, name, role }) => html`<li class="split">
            <span><${Line} value=${name} max=${40} /> <span class="muted">${role}</span></span>
            ${id === organization.value?.id ? html`<span class="muted">chosen</span>` : html`<button onClick=${() => updateSession({ organization: id })}>Choose</button>`}
          </li>`,
        )}
      </ul>
      <${Form} save=${found} submit="Create organization"><${Field} name="name" label="A further organization" maxlength="255" /><//>
    </section></div>
  </div>`;
};

const PARTS = { members: ["Members", Members], invites: ["Invites", Invites], keys: ["API keys", Keys], organization: ["Organization", Organization], account: ["Your account", Account] }; // prettier-ignore

/** Show the people and keys of the organization. */
export default function People() {
  const here = organization.value?.id;
  const wanted = Object.hasOwn(PARTS, query.value.tab) ? query.value.tab : "members";
  const tab = here && (isAdmin.value || query.value.tab) ? wanted : "account";
  const tabs = Object.entries(here ? PARTS : { account: PARTS.account }).map(([id, [label]]) => ({ id, label, href: `/console/people?tab=${id}` }));
  return html`<${Page} title="People and keys">
    <${Tabs} tabs=${tabs} current=${tab} label="Parts of this page" />
    <${PARTS[tab][1]} key=${here} />
  <//>`;
}
