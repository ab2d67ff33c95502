// Ways in: invites for people, and API keys for programs. Each secret is shown once.
import { html, useState } from "../../lib.js";
import { patch, post } from "../../core/api.js";
import { isAdmin } from "../../core/session.js";
import { AdminNote, DeleteButton, OnceDialog, ResourceList } from "../../ui/resources.js";
import { Badge, Button, Empty, Field, Form, Instant, Line, Relative, toast } from "../../ui/ui.js";
import { grantableRoles } from "./members.js";

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
  note="Pass this link on: the service sends no e-mail. It works once, for seven days, and cannot be read again."
  empty=${html`<${Empty} title="Nobody is invited"><p>An invite is a link with which one person joins the organization.</p><//>`}
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
