// One agent: what it does and why, its day lane, and below it the parts of its life as tabs.
import { html } from "../../lib.js";
import { queryString } from "../../core/api.js";
import { useGet } from "../../core/resource.js";
import { query } from "../../core/router.js";
import { Lazy, Line, Loaded, Page, PhaseBadge, Tabs } from "../../ui/ui.js";
import { Actions, Head } from "./head.js";
import { Lane } from "./lane.js";

const TABS = [
  { id: "queue", label: "Queue", load: () => import("./queue.js") },
  { id: "runs", label: "Runs", load: () => import("./runs.js") },
  { id: "conversation", label: "Conversation", load: () => import("./conversation.js") },
  { id: "documents", label: "Documents", load: () => import("./documents.js") },
  { id: "usage", label: "Usage", load: () => import("./usage.js") },
  { id: "settings", label: "Settings", load: () => import("./settings.js") },
  { id: "what-if", label: "What if", load: () => import("./what_if.js") },
];
const OF_LANE = ["day", "days", "at", "item", "from", "to"];
const STATE_EVENTS = ["agent.*", "run.*", "notification.*", "budget.*", "organization.*"];

const Agent = ({ agent, tab, reload }) => {
  const options = { events: STATE_EVENTS, agent: agent.id, every: 15 };
  const state = useGet(`/api/cloud/agents/${agent.id}/supervisor/`, {}, options);
  const lane = Object.fromEntries(OF_LANE.map((name) => [name, query.value[name]]));
  const tabs = TABS.map(({ id, label }) => ({ id, label, href: `/console/agents/${agent.id}/${id}${queryString(lane)}` }));
  const current = TABS.find(({ id }) => id === tab) ?? TABS[0];
  const heading = html`<${Line} value=${agent.name} /> ${state.data && html`<${PhaseBadge} phase=${state.data.phase} />`}`;
  const own = { ...agent, reload };
  return html`<${Page} title=${agent.name} heading=${heading} actions=${html`<${Actions} agent=${own} state=${state} />`}>
    <${Loaded} of=${state}>${(shown) => html`<${Head} agent=${agent} state=${shown} />`}<//>
    <${Lane} agent=${agent} key=${agent.id} />
    <${Tabs} tabs=${tabs} current=${current.id} label="Parts of the agent" />
    <${Lazy} key=${current.id} load=${current.load} agent=${own} />
  <//>`;
};

/** Show an agent with its day lane and the tab of the address. */
export default ({ id, tab }) => {
  const agent = useGet(`/api/cloud/agents/${id}/`, {}, { events: ["agent.*"], agent: id });
  return html`<${Loaded} of=${agent}>${(data) => html`<${Agent} agent=${data} tab=${tab} reload=${agent.reload} />`}<//>`;
};
