// Adapters, their tools and configurations, and the secrets that they use.
import { html, useState } from "../../lib.js";
import { get, isAdmin, patch, post } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useGet, useResource } from "../../core/live.js";
import { navigate, query } from "../../core/router.js";
import { Instant, safeUrl } from "../../core/words.js";
import { DeleteButton, isHere, NewResource, ResourceForm, ResourceList, roleIn } from "../../ui/resources.js";
import { atFields, fitsForm, readSchema, SchemaFields } from "../../ui/schema_form.js";
import { Badge, Dialog, Empty, Field, Form, JsonView, Line, Loaded, namesOf, Page, QueryChoice, readForm, Table, Tabs, Text, toast } from "../../ui/ui.js";
import { Secrets } from "./secrets.js";

// The configuration of an adapter for the agents of a template: a form made from the adapter's schema, or JSON.

const PATH = "/api/toolbox/adapter-configs/";

const headersOf = (lines) =>
  Object.fromEntries(
    lines.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const [name, ...rest] = line.split(":");
      if (!rest.length) throw { fields: { secret_headers: `Write a header, a colon and the name of a secret; got "${line}".` } };
      return [name.trim(), rest.join(":").trim()];
    }),
  );

const linesOf = (headers) => Object.entries(headers ?? {}).map(([name, secret]) => `${name}: ${secret}`).join("\n");

const SecretNames = ({ template }) => {
  const options = { limit: 200 };
  const own = useResource(() => (isAdmin.peek() ? get(`/api/templates/${template}/secrets/`, options) : Promise.resolve([])), [template]);
  const shared = useResource(() => (isAdmin.peek() ? get("/api/organizations/secrets/", options) : Promise.resolve([])));
  const names = new Set([...(own.data ?? []), ...(shared.data ?? [])].map(({ name }) => name));
  return html`<datalist id="secret-names">${[...names].map((name) => html`<option value=${name} />`)}</datalist>`;
};

const Editor = ({ adapter, template, config, reload }) => {
  const schema = adapter.config_schema;
  const isUnreadable = config && config.config === null;
  const [value, setValue] = useState(config?.config ?? undefined);
  const canShow = fitsForm(schema, value);
  const [asJson, setJson] = useState(!canShow);
  const isJson = asJson || !canShow;
  const entered = (values) => (isJson ? values.config : readSchema(schema, values, "config"));
  const save = async (values) => {
    const approval = values.approval.trim() ? approvalOf(values.approval) : null;
    const body = { config: entered(values), secret_headers: headersOf(values.secret_headers), approval };
    try {
      await (config ? patch(`${PATH}${config.id}/`, body) : post(PATH, { ...body, template, adapter: adapter.id }));
    } catch (error) {
      throw isJson ? error : atFields(error, "config");
    }
    toast("Saved. Tool calls use it at once.");
    reload();
  };
  const toggle = (event) => {
    try {
      setValue(entered(readForm(event.target.form)));
      setJson(!isJson);
    } catch (error) {
      toast(Object.values(error.fields ?? {})[0] ?? error.message, { tone: "bad" });
    }
  };
  const actions = html`${canShow && html`<button type="button" class="quiet" onClick=${toggle}>${isJson ? "Edit as a form" : "Edit as JSON"}</button>`}
    ${config && html`<${DeleteButton} path="${PATH}${config.id}/" question="Calls are sent without a configuration." done=${reload} />`}`;
  return html`<${Form} key=${isJson} save=${save} submit=${config ? "Save" : "Create configuration"} actions=${actions}>
    ${isUnreadable && html`<p class="stale">The stored configuration cannot be decrypted. Set it again.</p>`}
    ${isJson && !canShow && html`<p class="muted">The schema says more than a form can show, so the configuration is edited as JSON.</p>`}
    ${isJson
      ? html`<${Field} name="config" label="Configuration" type="json" rows=${14} value=${JSON.stringify(value ?? {}, null, 2)} />`
      : html`<fieldset class="resource-group">
          ${schema.title && html`<legend><bdi>${schema.title}</bdi></legend>`}
          <${SchemaFields} schema=${schema} value=${value} path="config" />
        </fieldset>`}
    <${Field} name="secret_headers" label="Headers with secrets" type="textarea" rows=${2} value=${linesOf(config?.secret_headers)}
      help="One a line: a header and the name of a secret, such as Authorization: CRM_KEY." />
    <${Field} name="approval" label="Approval" type="textarea" rows=${2} value=${config?.approval ? approvalText(config.approval) : ""}
      help="Which calls a person must approve, for the agents of this template: never, always, first_use, or {"when": a JSON Schema}. Blank: as each tool says." />
    <${SecretNames} template=${template} />
  <//>`;
};

/** Show the form of the configuration that a template has for an adapter. */
export const Config = ({ adapter, template }) => {
  const configs = useGet(PATH, { template, adapter: adapter.id });
  return html`<${Loaded} of=${configs}>
    ${([config = null]) => html`<${Editor} key=${config?.updated_at ?? "new"} adapter=${adapter} template=${template} config=${config} reload=${configs.reload} />`}
  <//>`;
};

// One adapter: its settings, its tools, and how the agents of each template use it.

const HOME = "/console/tools";
const asJson = (value) => JSON.stringify(value, null, 2);

/** The fields of an adapter. */
export const ADAPTER_GROUPS = [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255 },
      { name: "detail_url", label: "Address with more about it", maxlength: 200 },
      { name: "description", label: "Description", type: "textarea", rows: 2 },
      {
        name: "config_schema",
        label: "Schema of its configuration",
        type: "json",
        rows: 14,
        from: (adapter) => asJson(adapter?.config_schema ?? {}),
        help: "A JSON Schema of an object. The form of the configuration is made from it: titles, descriptions, defaults, enum, and format password or secret.",
      },
    ],
  },
];

const approvalText = (approval) => (typeof approval === "string" ? approval : asJson(approval));

/** Return the rule that a text stands for: a word, or an object in JSON. */
const approvalOf = (text) => {
  if (!text.trim().startsWith("{")) return text.trim();
  try {
    return JSON.parse(text);
  } catch (error) {
    throw { fields: { approval: `This is not JSON. ${error.message}` } };
  }
};

const TOOL_GROUPS = [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255 },
      { name: "url", label: "Address that is called", maxlength: 200, help: "Blank: calls fail." },
      { name: "handler", label: "Handler", maxlength: 255, help: "Sent with each call. channel:sms makes the tool deliver messages." },
      { name: "detail_url", label: "Address with more about it", maxlength: 200 },
      { name: "description", label: "Description", type: "textarea", rows: 3, help: "As models read it." },
      { name: "idempotent", label: "A repeated call does no harm", type: "checkbox", help: "Then checks of schedules may call it." },
      {
        name: "approval",
        label: "Approval",
        rows: 3,
        type: "textarea",
        from: (tool) => approvalText(tool?.approval ?? "never"),
        help: `Which calls a person must approve: never, always, first_use, or {"when": a JSON Schema of the arguments}.`,
      },
      {
        name: "parameters",
        label: "Parameters",
        type: "json",
        rows: 10,
        from: (tool) => asJson(tool?.parameters ?? null),
        help: "A JSON Schema of an object, which calls must fit; null: not described.",
      },
    ],
  },
];

const ToolDialog = ({ adapter, tool, close, saved }) => html`<${Dialog} title=${tool.id ? "Tool" : "New tool"} close=${close} wide>
  <${ResourceForm}
    path="/api/toolbox/tools/"
    resource=${tool.id ? tool : null}
    groups=${TOOL_GROUPS}
    adapt=${({ approval, ...values }) => ({ ...values, approval: approvalOf(approval), ...(!tool.id && { adapter }) })}
    saved=${() => (saved(), close())}
    actions=${tool.id && html`<${DeleteButton} path="/api/toolbox/tools/${tool.id}/" question="Agents lose this tool." done=${() => (saved(), close())} />`}
  />
<//>`;

const Tools = ({ adapter, mayEdit }) => {
  const tools = useGet("/api/toolbox/tools/", { adapter: adapter.id, limit: 200 });
  const [opened, setOpened] = useState(null);
  const columns = [
    { title: "Name", cell: (row) => html`<button class="quiet" onClick=${() => setOpened(row)}><${Line} value=${row.name} max=${80} /></button>` },
    { title: "Description", cell: (row) => html`<${Line} value=${row.description} max=${100} />` },
    { title: "Called at", cell: (row) => html`<${Line} value=${row.url || "–"} max=${60} />` },
  ];
  const show = (tool) =>
    mayEdit
      ? html`<${ToolDialog} adapter=${adapter.id} tool=${tool} close=${() => setOpened(null)} saved=${tools.reload} />`
      : html`<${Dialog} title="Tool" close=${() => setOpened(null)} wide><${Text} value=${tool.description} /><${JsonView} value=${tool.parameters} /><//>`;
  return html`<div class="stack">
    ${mayEdit && html`<div class="actions"><button onClick=${() => setOpened({})}>New tool</button></div>`}
    <${Loaded} of=${tools} empty=${html`<${Empty} title="This adapter has no tool yet"><p>A tool is an address that the agent may call. Create it with POST /api/toolbox/tools/; agents that have the adapter get it at their next turn.</p><//>`}>
      ${(rows) => html`<${Table} columns=${columns} rows=${rows} label="Tools" />`}
    <//>
    ${opened && show(opened)}
  </div>`;
};

const Settings = ({ adapter, mayEdit, reload }) => {
  if (!mayEdit) {
    const link = safeUrl(adapter.detail_url);
    return html`<section class="card">
      <p class="muted">This adapter belongs to another organization, which alone may change it.</p>
      <${Text} value=${adapter.description} />
      ${link && html`<p><a href=${link} rel="noreferrer noopener" target="_blank"><${Line} value=${adapter.detail_url} /></a></p>`}
      <${JsonView} value=${adapter.config_schema} />
    </section>`;
  }
  return html`<section class="card"><${ResourceForm} path="/api/toolbox/adapters/" resource=${adapter} groups=${ADAPTER_GROUPS} saved=${reload} /></section>
    <section class="card"><h2>Delete</h2><${DeleteButton} path="/api/toolbox/adapters/${adapter.id}/" question="Agents lose its tools, templates its configurations." done=${() => navigate(HOME)} /></section>`;
};

const Configs = ({ adapter }) => {
  const templates = useGet("/api/templates/", { limit: 500 });
  const { template } = query.value;
  return html`<section class="card">
    <${Loaded} of=${templates} empty=${html`<p class="muted">Agents use an adapter with the configuration of their template. <a href="/console/templates/new">Create a template</a></p>`}>
      ${(all) => html`<div class="filters"><${QueryChoice} label="Template" name="template" options=${[["", "Choose a template"], ...namesOf(all.filter(isHere))]} /></div>`}
    <//>
    ${template
      ? html`<${Config} key=${template} adapter=${adapter} template=${template} />`
      : html`<p class="muted">Choose the template whose agents are to use this adapter.</p>`}
  </section>`;
};

/** Show one adapter. */
export const Adapter = ({ id }) => {
  const adapter = useGet(`/api/toolbox/adapters/${encodeURIComponent(id)}/`);
  const { template } = query.value;
  const tab = query.value.tab ?? (template ? "config" : "tools");
  const tabs = [
    { id: "tools", label: "Tools", href: `${HOME}/${id}?tab=tools` },
    { id: "config", label: "Configuration by template", href: `${HOME}/${id}?tab=config` },
    { id: "settings", label: "Adapter", href: `${HOME}/${id}?tab=settings` },
  ];
  const name = adapter.data?.name ?? "Adapter";
  const actions = adapter.data && html`<${Badge}>${adapter.data.visibility}<//>`;
  return html`<${Page} title=${name} actions=${actions}>
    <${Tabs} tabs=${tabs} current=${tab} label="Parts of the adapter" />
    <${Loaded} of=${adapter}>
      ${(data) => {
        const mayEdit = Boolean(roleIn(data.organization_id));
        if (tab === "tools") return html`<${Tools} adapter=${data} mayEdit=${mayEdit} />`;
        if (tab === "settings") return html`<${Settings} adapter=${data} mayEdit=${mayEdit} reload=${adapter.reload} />`;
        return html`<${Configs} adapter=${data} />`;
      }}
    <//>
  <//>`;
};

const columns = () => [
  { title: "Name", cell: ({ id, name }) => html`<a href="${HOME}/${id}"><${Line} value=${name} max=${80} /></a>` },
  { title: "Description", cell: ({ description }) => html`<${Line} value=${description} max=${120} />` },
  { title: "Visibility", cell: ({ visibility }) => html`<${Badge}>${visibility}<//>` },
  { title: "Created", cell: (row) => html`<${Instant} at=${row.created_at} style="day" />` },
];

const Adapters = () => html`<${ResourceList} path="/api/toolbox/adapters/" columns=${columns} text=${({ name, description }) => `${name} ${description}`}
  open=${({ id }) => `${HOME}/${id}`} label="Adapters" empty=${html`<${Empty} title="There is no adapter yet">
    <p>An adapter groups tools that agents call over HTTP, such as those of a booking system.</p>
    <a class="button primary" href="${HOME}/new">New adapter</a>
  <//>`} />`;

const New = () => html`<${NewResource} title="New adapter" home=${HOME} path="/api/toolbox/adapters/" groups=${ADAPTER_GROUPS} />`;

const Lists = () => {
  useKeys({ n: { help: "New adapter", run: () => navigate(`${HOME}/new`) } });
  const tab = query.value.tab === "secrets" ? "secrets" : "adapters";
  const tabs = [
    { id: "adapters", label: "Adapters", href: HOME },
    { id: "secrets", label: "Secrets", href: `${HOME}?tab=secrets` },
  ];
  const actions = tab === "adapters" && html`<a class="button primary" href="${HOME}/new">New adapter</a>`;
  return html`<${Page} title="Adapters and tools" actions=${actions}>
    <${Tabs} tabs=${tabs} current=${tab} label="Parts of this page" />
    ${tab === "adapters" ? html`<${Adapters} />` : html`<${Secrets} path="/api/organizations/secrets/" />`}
  <//>`;
};

/** Show the adapters, one of them, or the form for a new one. */
export default function Toolbox({ id }) {
  if (id === "new") return html`<${New} />`;
  return id ? html`<${Adapter} id=${id} key=${id} />` : html`<${Lists} />`;
}
