// Adapters, their tools and configurations, and the secrets that they use.
import { html } from "../../lib.js";
import { useKeys } from "../../core/keys.js";
import { navigate, query } from "../../core/router.js";
import { NewResource, ResourceList } from "../../ui/resources.js";
import { Badge, Empty, Instant, Line, Page, Tabs } from "../../ui/ui.js";
import { ADAPTER_GROUPS, Adapter } from "./adapter.js";
import { Secrets } from "./secrets.js";

const HOME = "/console/tools";

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
