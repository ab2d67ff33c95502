// One adapter: its settings, its tools, and how the agents of each template use it.
import { html, useState } from "../../lib.js";
import { useGet } from "../../core/resource.js";
import { navigate, query } from "../../core/router.js";
import { safeUrl } from "../../core/words.js";
import { DeleteButton, isHere, ResourceForm, roleIn } from "../../ui/resources.js";
import { Badge, Dialog, Empty, JsonView, Line, Loaded, namesOf, Page, QueryChoice, Table, Tabs, Text } from "../../ui/ui.js";
import { Config } from "./config.js";

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

const TOOL_GROUPS = [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255 },
      { name: "url", label: "Address that is called", maxlength: 200, help: "Blank: calls fail." },
      { name: "handler", label: "Handler", maxlength: 255, help: "Sent with each call. channel:sms makes the tool deliver messages." },
      { name: "detail_url", label: "Address with more about it", maxlength: 200 },
      { name: "description", label: "Description", type: "textarea", rows: 3, help: "As models read it." },
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
    adapt=${(values) => (tool.id ? values : { ...values, adapter })}
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
    <${Loaded} of=${tools} empty=${html`<${Empty} title="This adapter has no tool yet"><p>Agents that have the adapter get its tools at their next turn.</p><//>`}>
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
