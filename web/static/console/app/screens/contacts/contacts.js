// The contacts of the organization: who they are, how they are reached, and what was written.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useGet } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { Instant } from "../../core/words.js";
import { DeleteButton, NewResource, ResourceForm, ResourceList } from "../../ui/resources.js";
import { AgentPicker, Empty, Line, Loaded, Page, TextFilter } from "../../ui/ui.js";

const HOME = "/console/contacts";
const PATH = "/api/defaults/contacts/";
const GROUPS = [
  {
    fields: [
      { label: "Name", name: "name" },
      { label: "Phone", name: "phone", help: "With + and the country code." },
      { label: "E-mail", name: "email", type: "email" },
      { label: "Other addresses", name: "other_addresses", type: "list", help: "One in each line.", from: (contact) => contact?.other_addresses.join("\n") },
      { label: "Metadata", name: "metadata", type: "json", from: (contact) => JSON.stringify(contact?.metadata ?? {}, null, 2) },
    ],
  },
];

const nameOf = ({ name, phone, email, other_addresses: others }) => name || phone || email || others[0] || "Nameless";

const columns = () => [
  { title: "Name", cell: (row) => html`<a href="${HOME}/${row.id}"><${Line} value=${nameOf(row)} max=${60} /></a>` },
  { title: "Phone", cell: ({ phone }) => html`<${Line} value=${phone} max=${40} />` },
  { title: "E-mail", cell: ({ email }) => html`<${Line} value=${email} max=${60} />` },
  { title: "Since", cell: (row) => html`<${Instant} at=${row.created_at} />` },
];

const open = ({ id }) => `${HOME}/${id}`;

/** Open the one contact that matches what is typed. */
const openOnly = async ({ target }) => {
  const search = target.value.trim();
  const found = await get(PATH, { agent: query.peek().agent, search, limit: 2 });
  if (search && found.length === 1) navigate(open(found[0]));
};

const List = () => {
  const { search = "", agent, row } = query.value;
  useKeys({ n: { help: "New contact", run: () => navigate(`${HOME}/new`) } });
  const create = html`<a class="button primary" href="${HOME}/new">New contact</a>`;
  const isFiltered = search || agent;
  const empty = isFiltered
    ? html`<${Empty} title="No contact matches"><p>Others may: search for a part of the name, number or e-mail. Contacts for all agents are of no agent.</p><//>`
    : html`<${Empty} title="There is no contact yet"><p>Whoever writes to an agent, or is written to by one, becomes a contact. You can also make one.</p>${create}<//>`;
  return html`<${Page} title="Contacts" actions=${create}>
    <div class="filters">
      <${TextFilter} label="Search by name, number or e-mail" value=${search} change=${(text) => setQuery({ search: text, row: null }, { replace: true })} onEnter=${openOnly} autofocus=${matchMedia("(hover: hover)").matches && !row} data-filter />
      <${AgentPicker} label="Agent" placeholder="of any agent" value=${agent} change=${(id) => setQuery({ agent: id, row: null }, { replace: true })} />
    </div>
    <${ResourceList} key=${`${search} ${agent}`} path=${PATH} filters=${{ agent, search }} columns=${columns} open=${open} label="Contacts" empty=${empty} keep=${() => true} />
  <//>`;
};

const New = () => html`<${NewResource} title="New contact" home=${HOME} path=${PATH} groups=${GROUPS} />`;

const Contact = ({ id }) => {
  const contact = useGet(`${PATH}${encodeURIComponent(id)}/`);
  return html`<${Loaded} of=${contact}>
    ${(data) => html`<${Page} title=${nameOf(data)} actions=${html`<a class="button" href="/console/messages?contact=${data.id}">Messages with this contact</a>`}>
      <section class="card"><${ResourceForm} path=${PATH} resource=${data} groups=${GROUPS} saved=${contact.reload} /></section>
      <section class="card"><h2>Delete</h2><${DeleteButton} path="${PATH}${data.id}/" question="Its messages stay, without a contact." done=${() => navigate(HOME)} /></section>
    <//>`}
  <//>`;
};

/** Show the contacts, or the one of the address. */
export default ({ id }) => {
  if (!id) return html`<${List} />`;
  return id === "new" ? html`<${New} />` : html`<${Contact} key=${id} id=${id} />`;
};
