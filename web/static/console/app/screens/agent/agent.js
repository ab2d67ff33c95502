// One agent: what it does and why, and the parts of its life as tabs. The first one is its day.
import { html, useState } from "../../lib.js";
import { post, queryString } from "../../core/api.js";
import { useGet } from "../../core/live.js";
import { query } from "../../core/router.js";
import { formatDuration, Instant, now, plural } from "../../core/words.js";
import { Button, Lazy, Line, Loaded, Page, PhaseBadge, Sentence, Tabs, toast } from "../../ui/ui.js";
import { AgentActions } from "../agents/actions.js";
import { Title } from "../approvals/approvals.js";
import { Lane } from "./lane.js";

const MAX_ASKED = 5;

// The head of an agent: why it does what it does, what wakes it next, what keeps it awake, and what one can do.

const RUN_ANSWERS = {
  started: "A run has started.",
  queued: "A run is queued.",
  already_running: "A run is already active.",
};

/** Show what one can do with an agent. */
export const Actions = ({ agent, state }) => {
  const path = `/api/cloud/agents/${agent.id}`;
  const run = async () => {
    const { status } = await post(`${path}/run/`);
    toast(RUN_ANSWERS[status] ?? `The request was answered: ${status.replaceAll("_", " ")}.`);
    state.reload();
  };
  const reload = () => {
    agent.reload();
    state.reload();
  };
  return html`<${Button} kind="primary" run=${run}>Run now<//><${AgentActions} agent=${agent} done=${reload} />`;
};

/** Show the time that is left until an instant, each second. */
const Countdown = ({ at }) => {
  const left = Math.ceil((Date.parse(at) - now.value) / 1000);
  return html`<b class="number">${left > 0 ? `in ${formatDuration(left)}` : "due now"}</b>`;
};

const Blockers = ({ agent, ids }) => {
  const first = useGet(`/api/defaults/notifications/${ids[0]}/`);
  const more = ids.length > 1 && ` and ${ids.length >= 100 ? "99 or more others" : plural(ids.length - 1, "other")}`;
  return html`<dt>Keeps it awake</dt>
    <dd>
      <a href="/console/agents/${agent.id}/queue">
        ${first.data ? html`“<${Line} value=${first.data.title} max=${80} />”` : plural(1, "notification")}${more}
      </a>
    </dd>`;
};

/** Show what the agent has asked a person, if anything. */
const Asked = ({ agent }) => {
  const filters = { agent: agent.id, state: "pending", limit: MAX_ASKED };
  const { data } = useGet("/api/defaults/approvals/", filters, { events: ["approval.*"], agent: agent.id });
  if (!data?.length) return null;
  return html`<dt>Waits for a person</dt>
    <dd>${data.map((call) => html`<div key=${call.id}><a href="/console/approvals/${call.id}"><${Title} call=${call} /></a></div>`)}
      ${data.length === MAX_ASKED && html`<a href="/console/approvals">All that wait</a>`}</dd>`;
};

/** Show the sentence of an agent large, and the facts beside it. */
export const Head = ({ agent, state }) => {
  const { phase, why, next_wake: next, blockers, failures, run } = state;
  const zone = agent.timezone;
  return html`<div class="agent-head">
    <p class="agent-why"><${Sentence} text=${why} zone=${zone} /></p>
    <dl class="facts">
      <dt>Next wake</dt>
      <dd>
        ${next
          ? html`<${Countdown} at=${next.at} /> · <${Instant} at=${next.at} zone=${zone} /> · <${Sentence} text=${next.because} zone=${zone} />`
          : run
            ? html`<a href="/console/agents/${agent.id}/runs/${run.id}">It is awake: open its run</a>`
            : ["paused", "archived"].includes(phase)
              ? "Nothing wakes it at present."
              : "Only something new can wake it."}
      </dd>
      <${Asked} agent=${agent} />
      ${blockers.length > 0 && html`<${Blockers} agent=${agent} ids=${blockers} />`}
      ${failures.consecutive > 0 &&
      html`<dt>Failures</dt>
        <dd>
          ${plural(failures.consecutive, "run")} in a row; the last error: <${Line} value=${failures.last_error || "unknown"} />
          ${failures.retry_at && html` · next try <${Countdown} at=${failures.retry_at} />`}
        </dd>`}
    </dl>
  </div>`;
};

const TABS = [
  { id: "", label: "Day", load: () => import("./queue.js") },
  { id: "queue", label: "Queue", load: () => import("./queue.js") },
  { id: "schedules", label: "Schedules", load: () => import("./schedules.js") },
  { id: "runs", label: "Runs", load: () => import("../runs/runs.js") },
  { id: "conversation", label: "Conversation", load: () => import("./conversation.js") },
  { id: "documents", label: "Documents", load: () => import("./documents.js") },
  { id: "usage", label: "Usage", load: () => import("./usage.js") },
  { id: "settings", label: "Settings", load: () => import("./settings.js") },
  { id: "what-if", label: "What if", load: () => import("./what_if.js") },
  { id: "rewind", label: "Rewind", load: () => import("./rewind.js") },
];
const OF_LANE = ["day", "days", "at", "item", "from", "to"];
const STATE_EVENTS = ["agent.*", "run.*", "notification.*", "budget.*", "schedule.*", "organization.*"];

const Above = ({ agent, state }) => html`<${Loaded} of=${state}>${(shown) => html`<${Head} agent=${agent} state=${shown} />`}<//>
  <${Lane} agent=${agent} key=${agent.id} />`;

/** Show the head and the lane in one line, which opens. */
const Folded = ({ agent, state }) => {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="agent-fold" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><${Sentence} text=${state.data?.why ?? "What it does, and its day"} zone=${agent.timezone} /></summary>
    ${isOpen && html`<${Above} agent=${agent} state=${state} />`}
  </details>`;
};

const Agent = ({ agent, tab, reload }) => {
  const options = { events: STATE_EVENTS, agent: agent.id, every: 15 };
  const state = useGet(`/api/cloud/agents/${agent.id}/supervisor/`, {}, options);
  const lane = Object.fromEntries(OF_LANE.map((name) => [name, query.value[name]]));
  const tabs = TABS.map(({ id, label }) => ({ id, label, href: `/console/agents/${agent.id}${id && `/${id}`}${queryString(lane)}` }));
  const current = TABS.find(({ id }) => id === tab) ?? TABS[0];
  const Top = current.id ? Folded : Above;
  const heading = html`<${Line} value=${agent.name} /> ${state.data && html`<${PhaseBadge} phase=${state.data.phase} />`}`;
  const own = { ...agent, reload };
  return html`<${Page} title=${agent.name} heading=${heading} actions=${html`<${Actions} agent=${own} state=${state} />`}>
    <${Tabs} tabs=${tabs} current=${current.id} label="Parts of the agent" />
    <${Top} agent=${agent} state=${state} />
    ${current.id && html`<h2 class="hidden">${current.label}</h2>`}
    <${Lazy} key=${current.id} load=${current.load} agent=${own} />
  <//>`;
};

/** Show an agent with its day lane and the tab of the address. */
export default ({ id, tab }) => {
  const agent = useGet(`/api/cloud/agents/${id}/`, {}, { events: ["agent.*"], agent: id });
  return html`<${Loaded} of=${agent}>${(data) => html`<${Agent} agent=${data} tab=${tab} reload=${agent.reload} />`}<//>`;
};
