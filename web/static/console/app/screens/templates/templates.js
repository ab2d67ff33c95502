// Templates: settings that many agents share.
import { html } from "../../lib.js";
import { useKeys } from "../../core/keys.js";
import { useGet } from "../../core/live.js";
import { navigate } from "../../core/router.js";
import { Instant, plural } from "../../core/words.js";
import { DeleteButton, NewResource, ResourceForm, ResourceList } from "../../ui/resources.js";
import { Empty, Line, Loaded, Money, Page } from "../../ui/ui.js";
import { Secrets } from "../toolbox/secrets.js";

// The fields of a template, in the groups of its form.

const pairs = (...values) => values.map((value) => [value, value || "as the service"]);
const count = (name, label, help, more) => ({ name, label, help, type: "number", min: 0, step: 1, ...more });

/** Return the groups of fields for a template, or for a new one. */
export const groupsFor = (template) => [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255, autofocus: !template },
      { name: "default_model", label: "Model", help: "For new agents that name none, such as builtin/inbox or openai/gpt-5.", maxlength: 255 },
      { name: "description", label: "Description", type: "textarea", rows: 2 },
      { name: "system_prompt", label: "System prompt", type: "textarea", rows: 10, help: "For agents that have none of their own." },
    ],
  },
  {
    title: "Waking and runs",
    fields: [
      count("debounce_window_seconds", "Pause before waking (seconds)", "How long a conversation must pause before it wakes an agent. 0: at once."),
      count("max_turns", "Turns of a run", "0: as the service."),
      { name: "default_reasoning_effort", label: "Reasoning effort", type: "select", options: pairs("none", "minimal", "low", "medium", "high", "xhigh") },
      count("thinking_max_tokens", "Tokens for thinking", "0: no maximum is sent."),
      count("temperature", "Temperature", "From 0 to 2. Blank: as the provider.", { max: 2, step: "any" }),
      count("max_output_tokens", "Tokens of an answer", "0: as many as the provider allows."),
      {
        name: "tool_choice",
        label: "Tool calls",
        type: "select",
        options: [["auto", "as the model decides"], ["required", "in each turn"], ["none", "never"]],
      },
      {
        name: "response_format",
        label: "Schema of the final answer",
        type: "json",
        rows: 4,
        from: (one) => (one?.response_format ? JSON.stringify(one.response_format, null, 2) : ""),
        help: "A JSON Schema. Blank: the final answer is any text.",
      },
      {
        name: "reply",
        label: "Replies",
        type: "select",
        options: [["tool", "by a tool such as send_message"], ["text", "by the text of the final answer"]],
      },
      {
        name: "carry_over",
        label: "Told of earlier runs",
        type: "select",
        options: [["journal", "the last entries of the journal"], ["transcript", "the whole conversation"], ["none", "nothing"]],
      },
      count("context_tokens", "Tokens of the first message", "0: as the service."),
      { name: "may_create_contacts", label: "May write to new people and create contacts", type: "checkbox", from: (one) => one?.may_create_contacts ?? true },
      { name: "may_create_agents", label: "May create agents that work for it", type: "checkbox", from: (one) => one?.may_create_agents ?? false },
    ],
  },
  {
    title: "Spending",
    fields: [
      count("max_cost_usd_per_day", "Cap of each agent (US dollars a day)", "Blank: no cap. 0 allows no run.", { step: "any" }),
      { name: "unpriced", label: "Models without a known price", type: "select", options: [["refuse", "refused under a cap"], ["allow", "allowed under a cap"]] },
    ],
  },
  {
    title: "Waking",
    fields: [
      count("max_wakes_per_hour", "Wakes of each agent in an hour", "Blank: no limit.", { min: 1 }),
      count("max_wakes_per_day", "Wakes of each agent in a day", "Of the agent's time zone. Blank: no limit.", { min: 1 }),
      { name: "quiet_hours", label: "Quiet hours", help: "Such as 22:00-07:00 or Mon-Fri 22:00-07:00, in the agent's time zone. Blank: none.", maxlength: 255 },
    ],
  },
  {
    title: "Approvals",
    fields: [
      { name: "approvers", label: "Who decides about calls that need it", type: "select", options: [["admin", "admins and owners"], ["owner", "owners"], ["member", "every member"]] },
      count("approval_hours", "Hours until a wait for a person expires", "Blank: never.", { min: 1, from: (one) => (one ? one.approval_hours : 168) }),
    ],
  },
  {
    title: "Traces",
    fields: [
      { name: "content", label: "Texts in traces", type: "select", options: [["", "as the service"], ["full", "kept"], ["none", "not kept"]] },
      count("content_days", "Days that texts are kept", "Blank: as the service. 0: as long as the trace."),
    ],
  },
  {
    title: "Code and calls",
    fields: [
      { name: "harness_git_ref", label: "Git reference of the harness", help: "Blank: the newest main.", maxlength: 255 },
      { name: "agent_created_webhook_url", label: "Address told of new agents", help: "Gets a signed request for each. Blank: none." },
      {
        name: "tool_call_secret",
        label: "Secret that signs calls",
        type: "password",
        autocomplete: "new-password",
        nullable: template?.tool_call_secret === null,
        help: template?.tool_call_secret === null ? "A secret is set; only admins see it. Blank: it stays." : "whsec_ and Base64, or any text. Blank: calls are not signed.",
      },
      {
        name: "environment_secrets",
        label: "Secrets for the harness",
        type: "list",
        rows: 2,
        from: (one) => one?.environment_secrets.join("\n"),
        help: "Names of secrets that its code gets as environment variables, one a line.",
      },
    ],
  },
];

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
  return html`<${Page} title=${name} actions=${html`<a class="button" href="${HOME}/${id}/prompts">Versions of the prompt</a>`}>
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
