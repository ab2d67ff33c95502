// People and keys: who may do what in the organization, and the person's own account.
import { html, useState } from "../../lib.js";
import { get, isAdmin, organization, patch, post, session, updateSession } from "../../core/api.js";
import { useGet } from "../../core/live.js";
import { query } from "../../core/router.js";
import { Instant, Relative } from "../../core/words.js";
import { AdminNote, DeleteButton, OnceDialog, ResourceForm, ResourceList } from "../../ui/resources.js";
import { Badge, Button, Empty, Field, Form, Line, Loaded, Page, Table, Tabs, toast } from "../../ui/ui.js";

// Ways in: invites for people, and API keys for programs. Each secret is shown once.

const INVITES = "/api/organizations/invites/";
const KEYS = "/api/organizations/api-keys/";

/** Show a form that makes something with a secret, the secret once, and the list of all. */
const Makers = ({ path, submit, fields, columns, empty, label, secret, note }) => {
  const [made, setMade] = useState(null);
  const [version, setVersion] = useState(0);
  if (!isAdmin.value) return html`<${AdminNote}>${label} are seen and created by admins and owners only.<//>`;
  const create = async (values) => {
    setMade(await post(path, values));
    setVersion(version + 1);
  };
  return html`<div class="stack">
    <section class="card people-new"><${Form} key=${version} save=${create} submit=${submit}>${fields}<//></section>
    <${ResourceList} key=${version} path=${path} columns=${columns} label=${label} empty=${empty} />
    ${made && html`<${OnceDialog} title=${submit} text=${secret(made)} close=${() => setMade(null)}>${note}<//>`}
  </div>`;
};

const state = ({ accepted_at: acceptedAt, expires_at: expiresAt }) => {
  if (acceptedAt) return html`<${Badge} tone="good">accepted<//>`;
  if (Date.parse(expiresAt) < Date.now()) return html`<${Badge}>expired<//>`;
  return html`<${Badge} tone="warn">open<//> <span class="muted">ends <${Relative} at=${expiresAt} /></span>`;
};

const inviteColumns = (reload) => [
  { title: "E-mail", cell: ({ email }) => html`<${Line} value=${email} max=${80} />` },
  { title: "Role", cell: ({ role }) => role },
  { title: "State", cell: state },
  { title: "Created", cell: (row) => html`<${Instant} at=${row.created_at} style="day" />` },
  {
    title: "Actions",
    cell: (row) => html`<${DeleteButton} path="${INVITES}${row.id}/" label=${row.accepted_at ? "Delete" : "Revoke"} question="The link stops working." done=${reload} />`,
  },
];

/** Show the invites. */
export const Invites = () => html`<${Makers}
  path=${INVITES}
  label="Invites"
  submit="Create invite"
  columns=${inviteColumns}
  fields=${html`<${Field} name="email" label="E-mail" type="email" autocomplete="off" />
    <${Field} name="role" label="Role" type="select" options=${grantableRoles().map((one) => [one])} />`}
  secret=${({ id, code }) => `${location.origin}/console/invites/${id}#${code}`}
  note="Pass this link on, unless the service sends e-mail. It works once, for seven days, and cannot be read again."
  empty=${html`<${Empty} title="Nobody is invited"><p>An invite is a link with which one person joins the organization. Make one above.</p><//>`}
/>`;

const toggle = (row, reload) => async () => {
  await patch(`${KEYS}${row.id}/`, { is_active: !row.is_active });
  toast(row.is_active ? "The key is refused from now on." : "The key is accepted again.");
  reload();
};

const keyColumns = (reload) => [
  { title: "Name", cell: ({ name }) => html`<${Line} value=${name} max=${80} />` },
  { title: "Begins with", cell: ({ prefix }) => html`<code>hsk_${prefix}</code>` },
  { title: "State", cell: (row) => html`<${Badge} tone=${row.is_active ? "good" : ""}>${row.is_active ? "on" : "off"}<//>` },
  { title: "Last used", cell: (row) => html`<${Instant} at=${row.last_used_at} />` },
  { title: "Created", cell: (row) => html`<${Instant} at=${row.created_at} style="day" />` },
  {
    title: "Actions",
    cell: (row) => html`<div class="actions">
      <${Button} kind="quiet" run=${toggle(row, reload)}>${row.is_active ? "Switch off" : "Switch on"}<//>
      <${DeleteButton} path="${KEYS}${row.id}/" question="Programs that use it are refused." done=${reload} />
    </div>`,
  },
];

/** Show the API keys. */
export const Keys = () => html`<${Makers}
  path=${KEYS}
  label="API keys"
  submit="Create API key"
  columns=${keyColumns}
  fields=${html`<${Field} name="name" label="Name" help="To tell keys apart, such as the program that uses it." autocomplete="off" />`}
  secret=${({ key }) => key}
  note="Send it as “Authorization: Bearer …”. This is the only time that it can be read."
  empty=${html`<${Empty} title="There is no API key"><p>Programs act for the organization with a key, as an admin.</p><//>`}
/>`;

// The members of the organization and their roles.

const PATH = "/api/organizations/memberships/";
const ROLES = ["member", "admin", "owner"];

/** Return the roles that the person may give: none above their own. */
export const grantableRoles = () => ROLES.slice(0, ROLES.indexOf(organization.value.role) + 1);

const change = (row, reload) => async (event) => {
  try {
    await patch(`${PATH}${row.id}/`, { role: event.target.value });
    toast("The role is changed.");
  } catch (error) {
    event.target.value = row.role;
    toast(error.sentence, { tone: "bad" });
  }
  reload();
};

const Role = ({ row, reload }) => {
  const roles = grantableRoles();
  if (!roles.includes(row.role)) return html`<span title="Only an owner can change an owner.">${row.role}</span>`;
  return html`<select aria-label="Role of ${row.user.email}" onChange=${change(row, reload)}>
    ${roles.map((one) => html`<option value=${one} selected=${one === row.role}>${one}</option>`)}
  </select>`;
};

const columns = (reload) => [
  { title: "Name", cell: ({ user }) => html`<${Line} value=${user.name || "–"} max=${60} />` },
  { title: "E-mail", cell: ({ user }) => html`<${Line} value=${user.email} max=${80} />` },
  { title: "Role", cell: (row) => html`<${Role} row=${row} reload=${reload} />` },
  { title: "Since", cell: (row) => html`<${Instant} at=${row.created_at} style="day" />` },
  {
    title: "Actions",
    cell: (row) =>
      row.user.id !== session.value.user.id &&
      grantableRoles().includes(row.role) &&
      html`<${DeleteButton} path="${PATH}${row.id}/" label="Remove" question="This person loses access at once." done=${reload} />`,
  },
];

/** Show the members. */
export const Members = () =>
  isAdmin.value
    ? html`<${ResourceList} path=${PATH} columns=${columns} text=${({ user }) => `${user.name} ${user.email}`} label="Members" />`
    : html`<${AdminNote}>Only admins and owners see the members.<//>`;

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
