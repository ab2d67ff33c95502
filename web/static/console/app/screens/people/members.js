// The members of the organization and their roles.
import { html } from "../../lib.js";
import { patch } from "../../core/api.js";
import { isAdmin, organization, session } from "../../core/session.js";
import { AdminNote, DeleteButton, ResourceList } from "../../ui/resources.js";
import { Instant, Line, toast } from "../../ui/ui.js";

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
