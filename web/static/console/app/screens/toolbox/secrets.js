// Secrets: their names. A value can be written, but nobody can read it.
import { html, useState } from "../../lib.js";
import { isAdmin, patch, post } from "../../core/api.js";
import { Instant } from "../../core/words.js";
import { AdminNote, DeleteButton, ResourceList } from "../../ui/resources.js";
import { Dialog, Empty, Field, Form, toast } from "../../ui/ui.js";

const ValueDialog = ({ path, secret, close, saved }) => {
  const save = async (values) => {
    await (secret ? patch(`${path}${secret.id}/`, { value: values.value }) : post(path, values));
    toast(secret ? "The new value is stored." : "The secret is stored.");
    saved();
    close();
  };
  return html`<${Dialog} title=${secret ? `Replace ${secret.name}` : "New secret"} close=${close}>
    <${Form} save=${save} submit="Store">
      ${!secret && html`<${Field} name="name" label="Name" help="Capital letters, digits and _, such as CRM_KEY." autocomplete="off" required />`}
      <${Field} name="value" label="Value" type="password" autocomplete="new-password" help="It cannot be read again, not even here." required />
    <//>
  <//>`;
};

const columns = (path, setEdited) => (reload) => [
  { title: "Name", cell: ({ name }) => html`<code>${name}</code>` },
  { title: "Value set", cell: (row) => html`<${Instant} at=${row.updated_at} />` },
  {
    title: "Actions",
    cell: (row) => html`<div class="actions">
      <button class="quiet" onClick=${() => setEdited({ secret: row, reload })}>Replace value</button>
      <${DeleteButton} path="${path}${row.id}/" question="Calls and runs that use ${row.name} will fail." done=${reload} />
    </div>`,
  },
];

/** Show the secrets of the organization, or of a template. */
export const Secrets = ({ path }) => {
  const [edited, setEdited] = useState(null);
  const [version, setVersion] = useState(0);
  const saved = () => (edited.reload ? edited.reload() : setVersion(version + 1));
  if (!isAdmin.value) return html`<${AdminNote}>Only admins and owners see and set secrets.<//>`;
  return html`<div class="stack">
    <div class="split">
      <p class="muted">Tools and harnesses use secrets by their names. A template's secret goes before one of the organization with the same name.</p>
      <button onClick=${() => setEdited({})}>New secret</button>
    </div>
    <${ResourceList} key=${version} path=${path} columns=${columns(path, setEdited)} label="Secrets" empty=${html`<${Empty} title="There is no secret"><p>Store a key of another service here, and name it in the configuration of an adapter.</p><//>`} />
    ${edited && html`<${ValueDialog} path=${path} secret=${edited.secret} close=${() => setEdited(null)} saved=${saved} />`}
  </div>`;
};
