// Templates: settings that many agents share.
import { html } from "../../lib.js";
import { useKeys } from "../../core/keys.js";
import { useGet } from "../../core/resource.js";
import { navigate } from "../../core/router.js";
import { plural } from "../../core/words.js";
import { DeleteButton, NewResource, ResourceForm, ResourceList } from "../../ui/resources.js";
import { Empty, Instant, Line, Loaded, Money, Page } from "../../ui/ui.js";
import { Secrets } from "../toolbox/secrets.js";
import { groupsFor } from "./fields.js";

const PATH = "/api/templates/";
const HOME = "/console/templates";
const MAX_SHOWN = 20;

const columns = () => [
  { title: "Name", cell: ({ id, name }) => html`<a href="${HOME}/${id}"><${Line} value=${name} max=${80} /></a>` },
  { title: "Description", cell: ({ description }) => html`<${Line} value=${description} max=${100} />` },
  { title: "Model", cell: (row) => html`<${Line} value=${row.default_model || "–"} max=${60} />` },
  { title: "Cap a day", number: true, cell: (row) => html`<${Money} amount=${row.max_cost_usd_per_day} />` },
  { title: "Created", cell: (row) => html`<${Instant} at=${row.created_at} style="day" />` },
];

const List = () => {
  useKeys({ n: { help: "New template", run: () => navigate(`${HOME}/new`) } });
  const create = html`<a class="button primary" href="${HOME}/new">New template</a>`;
  const empty = html`<${Empty} title="There is no template yet">
    <p>A template holds what agents share: the prompt, the model, the pause before a conversation wakes them, and caps.</p>
    ${create}
  <//>`;
  return html`<${Page} title="Templates" actions=${create}>
    <${ResourceList} path=${PATH} columns=${columns} text=${({ name, description }) => `${name} ${description}`} open=${({ id }) => `${HOME}/${id}`} label="Templates" empty=${empty} />
  <//>`;
};

const New = () => html`<${NewResource} title="New template" home=${HOME} path=${PATH} groups=${groupsFor(null)} />`;

const Agents = ({ agents, id }) => html`<section class="card">
  <h2>Agents with this template</h2>
  ${agents.length
    ? html`<ul class="templates-agents">
        ${agents.slice(0, MAX_SHOWN).map((agent) => html`<li><a href="/console/agents/${agent.id}"><${Line} value=${agent.name} max=${60} /></a></li>`)}
      </ul>
      <p><a href="/console/agents?template=${id}">${agents.length > MAX_SHOWN ? "Show all of them" : "Show them in the list of agents"}</a></p>`
    : html`<p class="muted">None yet. <a href="/console/agents?new=agent&template=${id}">Create one</a></p>`}
</section>`;

const Adapters = ({ id }) => {
  const configs = useGet("/api/toolbox/adapter-configs/", { template: id, limit: 100 });
  const adapters = useGet("/api/toolbox/adapters/", { limit: 200 });
  const configured = new Set(configs.data?.map(({ adapter }) => adapter));
  return html`<section class="card">
    <h2>Adapters for its agents</h2>
    <${Loaded} of=${adapters} empty=${html`<p class="muted">There is no adapter. <a href="/console/tools/new">Create one</a></p>`}>
      ${(all) => html`<ul class="templates-agents">
        ${all.map(
          (adapter) => html`<li class="split">
            <a href="/console/tools/${adapter.id}?template=${id}"><${Line} value=${adapter.name} max=${50} /></a>
            <span class="muted">${configured.has(adapter.id) ? "configured" : "no configuration"}</span>
          </li>`,
        )}
      </ul>`}
    <//>
  </section>`;
};

const Deletion = ({ template, agents }) => {
  const path = `${PATH}${template.id}/`;
  const done = () => navigate(HOME);
  const count = agents.length > MAX_SHOWN ? `More than ${MAX_SHOWN} agents` : plural(agents.length, "agent");
  if (!agents.length) return html`<${DeleteButton} path=${path} question="Delete this template for good?" done=${done} />`;
  return html`<p class="muted">${count} ${agents.length === 1 ? "has" : "have"} this template. If you detach ${agents.length === 1 ? "it" : "them"}, ${agents.length === 1 ? "it keeps" : "they keep"} what is inherited.</p>
    <p class="resource-danger"><${DeleteButton} path=${path} query=${{ detach: true }} label="Detach and delete" question="Delete the template, and copy its settings into its agents?" done=${done} /></p>`;
};

const Detail = ({ id }) => {
  const template = useGet(`${PATH}${encodeURIComponent(id)}/`);
  const agents = useGet("/api/cloud/agents/", { template: id, include_archived: true, limit: MAX_SHOWN + 1 }, {
    events: ["agent.created", "agent.changed", "agent.deleted"],
  });
  const name = template.data?.name ?? "Template";
  return html`<${Page} title=${name}>
    <${Loaded} of=${template}>
      ${(data) => html`<div class="columns">
        <div>
          <section class="card"><${ResourceForm} key=${id} path=${PATH} resource=${data} groups=${groupsFor(data)} saved=${template.reload} /></section>
          <section class="card"><h2>Secrets of its agents</h2><${Secrets} path="${PATH}${id}/secrets/" /></section>
        </div>
        <div>
          <${Loaded} of=${agents}>${(found) => html`<${Agents} agents=${found} id=${id} />`}<//>
          <${Adapters} id=${id} />
          <section class="card"><h2>Delete</h2>${agents.data && html`<${Deletion} template=${data} agents=${agents.data} />`}</section>
        </div>
      </div>`}
    <//>
  <//>`;
};

/** Show the list of templates, one template, or the form for a new one. */
export default function Templates({ id }) {
  if (id === "new") return html`<${New} />`;
  return id ? html`<${Detail} id=${id} key=${id} />` : html`<${List} />`;
}
