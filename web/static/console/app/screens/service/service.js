// The service as its operator sees it: what it does, how fast, and on what.
import { html } from "../../lib.js";
import { get, isOperator } from "../../core/api.js";
import { useRows } from "../../core/keys.js";
import { useGet, useResource } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { Duration, formatDuration, Instant, PHASES, plural } from "../../core/words.js";
import { Badge, Choice, CopyButton, Empty, Line, Loaded, Page, PhaseBadge, Phases, Sentence, Table, Text, TextFilter } from "../../ui/ui.js";

// Measurements with their last minutes as a line. The line lives in the memory of the tab.

const KEPT = 150; // five minutes, at a reading every two seconds
const WIDTH = 150;
const HEIGHT = 32;
const history = new Map();

/** Remember the measurements of one reading. */
export const remember = (values) => {
  for (const [name, value] of Object.entries(values)) {
    history.set(name, [...(history.get(name) ?? []).slice(1 - KEPT), value ?? 0]);
  }
};

const points = (values) => {
  const top = Math.max(...values, 1e-9);
  const step = WIDTH / (KEPT - 1);
  const start = WIDTH - (values.length - 1) * step;
  return values.map((value, index) => `${(start + index * step).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`).join(" ");
};

const Sparkline = ({ name }) => {
  const values = history.get(name) ?? [];
  return html`<svg class="service-line" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    ${values.length > 1 && html`<polyline points=${points(values)} vector-effect="non-scaling-stroke" />`}
  </svg>`;
};

/** Show a measurement: its name, its value, what else belongs to it, and its line. */
export const Tile = ({ name, title, value, children }) => html`<section class="card service-tile" aria-label=${title}>
  <h2>${title}</h2>
  <p class="service-value">${value}</p>
  <${Sparkline} name=${name} />
  <p class="muted"><small>${children}</small></p>
</section>`;

/** Return milliseconds in words. */
export const duration = (ms) => (ms == null ? "–" : ms > 0 && ms < 1 ? "< 1 ms" : formatDuration(ms / 1000));

/** Show a fact of a list of facts. */
export const Fact = ({ name, children }) => html`<dt>${name}</dt><dd>${children}</dd>`;

// The agents of all organizations, for operators.

const LIMIT = 100;
const ID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const NOT_FILTERS = new Set(["unknown", "not_yet", "mixed", "over_budget", "held_by_limits"]);
const PHASE_OPTIONS = [["", "all phases"], ...Object.entries(PHASES).filter(([id]) => !NOT_FILTERS.has(id))];

const COLUMNS = [
  { title: "Agent", cell: (row) => html`<a href="/console/service/${row.agent}"><${Line} value=${row.name} max=${60} /></a>` },
  { title: "Phase", cell: (row) => html`<${PhaseBadge} phase=${row.phase} />` },
  { title: "Why", cell: (row) => html`<${Sentence} text=${row.why} />` },
  { title: "Next wake", cell: (row) => html`<${Instant} at=${row.next_wake?.at} />` },
  { title: "Organization", cell: (row) => html`<button class="quiet service-id" title="Only this organization" onClick=${() => setQuery({ organization: row.organization })}>${row.organization.slice(0, 8)}</button>` },
];

const find = (text) => (ID.test(text) ? navigate(`/console/service/${text.toLowerCase()}`) : setQuery({ name: text }, { replace: true }));

const Rows = ({ rows }) => {
  const { selected } = useRows({ ids: rows.map((row) => row.agent), open: (id) => navigate(`/console/service/${id}`) });
  return html`<${Table} label="Agents of all organizations" columns=${COLUMNS} rows=${rows} id=${(row) => row.agent} selected=${selected} />
    ${rows.length === LIMIT && html`<p class="muted">The first ${LIMIT} agents. Filter to see others.</p>`}`;
};

/** Show the agents that match the filters of the address. */
export const Agents = () => {
  const { name, phase, organization } = query.value;
  const filters = { name, phase, organization, limit: LIMIT };
  const agents = useGet("/status/supervisors/", filters, {
    events: ["agent.*", "run.*"],
  });
  const empty = html`<${Empty} title="No agent matches"><p>The name must be the whole name; upper and lower case are the same.</p><//>`;
  return html`<section class="service-agents" aria-label="Agents">
    <h2>Agents of all organizations</h2>
    <div class="filters">
      <${TextFilter} label="Whole name, or id" value=${name ?? ""} change=${find} data-filter />
      <${Choice} label="Phase" value=${phase} options=${PHASE_OPTIONS} change=${(one) => setQuery({ phase: one })} />
      ${organization && html`<button onClick=${() => setQuery({ organization: null })}>Organization ${organization.slice(0, 8)} ✕</button>`}
    </div>
    <${Loaded} of=${agents} empty=${empty}>${(rows) => html`<${Rows} rows=${rows} />`}<//>
  </section>`;
};

// Why one agent does what it does, now or at a moment in the past, for operators.

const MESSAGES = [
  { title: "At", cell: (row) => html`<${Instant} at=${row.at} />` },
  { title: "Message", cell: (row) => html`<${Line} value=${row.message} />` },
  { title: "Result", cell: (row) => html`<${Line} value=${row.outcome} />` },
];

const Moment = () => {
  const choose = (event) => {
    event.preventDefault();
    setQuery({ at: event.target.elements.at.value.trim() || null });
  };
  return html`<form class="filters" onSubmit=${choose}>
    <label>At <input class="service-at" name="at" data-filter placeholder="2026-11-20 03:00, or empty for now" defaultValue=${query.value.at ?? ""} /></label>
    <button>Explain</button>
    ${query.value.at && html`<button type="button" class="quiet" onClick=${() => setQuery({ at: null })}>Now</button>`}
  </form>`;
};

const Present = ({ agent }) => html`
  ${agent.node && html`<${Fact} name="Node"><${Line} value=${agent.node} /><//>`}
  <${Fact} name="Mailbox">${agent.mailbox.depth} of ${agent.mailbox.limit} requests<//>
  <${Fact} name="Failures">${agent.failures.consecutive ? html`${agent.failures.consecutive} in a row: <${Text} value=${agent.failures.last_error} />` : "none"}<//>
  <${Fact} name="Keeps it awake">${agent.blockers.length ? plural(agent.blockers.length, "active notification") : "nothing"}<//>
  ${agent.debounce && html`<${Fact} name="Holds until"><${Instant} at=${agent.debounce.due_at} />, a window of ${agent.debounce.window_seconds} s<//>`}
  ${agent.run && html`<${Fact} name="Run"><code>${agent.run.id}</code>, turn ${agent.run.turn}, since <${Instant} at=${agent.run.started_at} /><//>`}
`;

// The past knows the moment of the next wake, but not the cause.
const wakeOf = ({ next_wake: wake, next_wake_at: at }) => wake ?? (at && { at, because: "" });

const Explained = ({ agent }) => html`
  <section class="card">
    <p class="lead"><${Sentence} text=${agent.why} /></p>
    <dl class="facts service-facts">
      <${Fact} name="Phase"><${PhaseBadge} phase=${agent.phase} /> since <${Instant} at=${agent.since} style="full" /><//>
      <${Fact} name="Next wake">${wakeOf(agent) ? html`<${Instant} at=${wakeOf(agent).at} style="full" /><br /><${Sentence} text=${wakeOf(agent).because} />` : "only when something new comes"}<//>
      <${Fact} name="Organization"><code>${agent.organization}</code><//>
      <${Fact} name="Agent"><code>${agent.agent}</code> <${CopyButton} text=${agent.agent} /><//>
      ${agent.mailbox && html`<${Present} agent=${agent} />`}
    </dl>
  </section>
  ${agent.recent?.length > 0 &&
  html`<section class="card"><h2>Last messages to its supervisor</h2><${Table} label="Last messages" columns=${MESSAGES} rows=${[...agent.recent].reverse()} id=${(row) => row.at + row.message} /></section>`}
`;

/** Show the explanation of the agent at the moment of the address. */
export const Explanation = ({ id }) => {
  const { at } = query.value;
  const path = `/status/supervisors/${encodeURIComponent(id)}/`;
  const agent = useGet(path, { at }, { events: ["agent.*", "run.*", "notification.*"], agent: id });
  const name = agent.data?.name ?? "Agent";
  return html`<${Page} title=${name} actions=${html`<a href="/console/service">All agents</a>`}>
    <${Moment} key=${at} />
    <${Loaded} of=${agent}>${(data) => html`<${Explained} agent=${data} />`}<//>
  <//>`;
};

const READ_SECONDS = 2;
const TONES = { ready: "good", draining: "warn", degraded: "bad" };

const readStatus = async (signal) => {
  const status = await get("/status/", {}, signal);
  const { database, loop_lag_ms: lag, outbox, runs, supervisors, timers } = status;
  remember({
    runs: runs.running,
    lateness: timers.lateness_ms.p99,
    lag: lag.p99,
    database: database.connections - database.idle,
    outbox: outbox.pending,
    mailboxes: supervisors.mailbox.depth,
  });
  return status;
};

const Spread = ({ of: { p50, max } }) => html`median ${duration(p50)}, longest ${duration(max)}`;

const Tiles = ({ status: { database, loop_lag_ms: lag, outbox, runs, supervisors, timers } }) => html`<div class="service-tiles">
  <${Tile} name="runs" title="Run slots" value="${runs.running} of ${runs.limit}">${plural(runs.queued, "agent")} waiting for one<//>
  <${Tile} name="lateness" title="Timers' lateness" value=${duration(timers.lateness_ms.p99)}>99 % are faster; <${Spread} of=${timers.lateness_ms} /><//>
  <${Tile} name="lag" title="Event loop lag" value=${duration(lag.p99)}>99 % are faster; <${Spread} of=${lag} /><//>
  <${Tile} name="database" title="Database" value="${database.connections - database.idle} busy">of ${database.connections} connections; ${plural(database.waiting, "request")} waiting<//>
  <${Tile} name="outbox" title="Outbox" value="${outbox.pending} pending">${outbox.failed} deliveries given up<//>
  <${Tile} name="mailboxes" title="Mailboxes" value=${plural(supervisors.mailbox.depth, "request")}>${plural(supervisors.active, "supervisor")} in memory, ${supervisors.restarts} restarted<//>
</div>`;

const harnessWords = ({ kind, containment, network, remaining }) => {
  if (kind !== "process") return "built in";
  return `processes, contained by ${containment}, network: ${network}${remaining ? `; ${remaining} runs have processes left` : ""}`;
};

const NODE_TONES = { alive: "good", leaving: "warn", condemned: "bad" };
const SILENT_SECONDS = 3; // without a beat, of which there are two a second

const NODES = [
  { title: "Node", cell: (row) => html`<${Line} value=${row.name} max=${60} />` },
  { title: "State", cell: (row) => html`<${Badge} tone=${NODE_TONES[row.state]}>${row.state}<//>${row.confirmed_seconds >= SILENT_SECONDS && html` silent for <${Duration} seconds=${row.confirmed_seconds} />`}` },
  { title: "Version", cell: (row) => row.version },
  { title: "Agents", number: true, cell: (row) => row.agents.toLocaleString("en") },
  { title: "Runs", number: true, cell: (row) => row.runs },
  { title: "Free slots", number: true, cell: (row) => row.free_slots },
  { title: "Queued", number: true, cell: (row) => row.queued.toLocaleString("en") },
  { title: "Lag", number: true, cell: (row) => duration(row.lag_ms) },
];

const ENDED = [
  { title: "Node", cell: (row) => html`<${Line} value=${row.name} max=${60} />` },
  { title: "Version", cell: (row) => row.version },
  { title: "Joined", cell: (row) => html`<${Instant} at=${row.joined_at} />` },
  { title: "Ended", cell: (row) => html`<${Instant} at=${row.ended_at} />` },
  { title: "Interrupted runs", number: true, cell: (row) => row.interrupted_runs },
];

const Nodes = ({ status: { nodes, ended_nodes: ended } }) => html`<section class="service-nodes">
  <h2>Nodes</h2>
  <${Table} label="Nodes" columns=${NODES} rows=${nodes} id=${(row) => row.id} />
  ${ended.length > 0 &&
  html`<details><summary>${plural(ended.length, "node")} ended within a day</summary>
    <${Table} label="Ended nodes" columns=${ENDED} rows=${ended} id=${(row) => row.id} /></details>`}
</section>`;

const Facts = ({ status: { service, versions, harness, timers, agents } }) => html`<section class="card" aria-label="Versions and parts">
  <h2>What it is made of</h2>
  <dl class="facts">
    <${Fact} name="hostsvc">${service.version}, up for <${Duration} seconds=${service.uptime_seconds} /><//>
    <${Fact} name="Python">${versions.python}<//>
    <${Fact} name="PostgreSQL">${versions.postgresql ?? "–"}, schema ${versions.schema ?? "–"}<//>
    <${Fact} name="Harness">${harnessWords(harness)}<//>
    <${Fact} name="Timers">${timers.pending.toLocaleString("en")} set, the next for <${Instant} at=${timers.next_due_at} /><//>
    <${Fact} name="Agents">${agents.running} running, ${agents.sleeping.toLocaleString("en")} sleeping, ${agents.archived.toLocaleString("en")} archived<//>
  </dl>
</section>`;

const QUARANTINED = [
  { title: "Agent", cell: (row) => html`<a href="/console/service/${row.agent}"><${Line} value=${row.name} max=${60} /></a>` },
  { title: "Failures", number: true, cell: (row) => row.failures },
  { title: "Until", cell: (row) => html`<${Instant} at=${row.until} />` },
  { title: "Last error", cell: (row) => html`<${Line} value=${row.last_error} />` },
];

const Trouble = ({ status }) => {
  const { service, quarantined, supervisors, failing_webhooks: webhooks, forgotten } = status;
  return html`
    ${service.reasons.map((reason) => html`<p class="stale" key=${reason}><${Sentence} text=${reason} /></p>`)}
    ${forgotten.map(({ agent }) => html`<p class="stale" key=${agent}>Nothing starts the agent <a href="/console/service/${agent}">${agent}</a>, although it has work.</p>`)}
    ${webhooks > 0 && html`<p class="stale">${plural(webhooks, "event webhook")} failing, or switched off by the service.</p>`}
    ${quarantined.length > 0 &&
    html`<section class="service-quarantined"><h2>In quarantine: ${supervisors.quarantined}</h2>
      <${Table} label="Agents in quarantine" columns=${QUARANTINED} rows=${quarantined} id=${(row) => row.agent} /></section>`}
  `;
};

const Status = ({ status }) => html`
  <p class="lead service-lead"><${Sentence} text=${status.sentence} /></p>
  <${Trouble} status=${status} />
  <${Phases} phases=${status.phases} />
  <${Tiles} status=${status} />
  <${Nodes} status=${status} />
  <${Facts} status=${status} />
`;

const Service = () => {
  const status = useResource(readStatus, [], { every: READ_SECONDS });
  const state = status.data?.service.state;
  return html`<${Page} title="Service" actions=${state && html`<${Badge} tone=${TONES[state]}>${state}<//>`}>
    <${Loaded} of=${status}>${(data) => html`<${Status} status=${data} />`}<//>
    <${Agents} />
  <//>`;
};

const ForOperators = () => html`<${Page} title="Service">
  <div class="state card">
    <h2>This page is for operators</h2>
    <p>It shows the agents of all organizations, which your account may not see.</p>
    <p>If you run this service, sign in as its operator. The command <code>hostsvc operator-token</code> prints the token on the machine of the service.</p>
    <a class="button primary" href="/console/sign-in?${new URLSearchParams({ as: "operator", next: "/console/service" })}">Sign in as operator</a>
  </div>
<//>`;

/** Show the service, or one of its agents, to operators. */
export default ({ id }) => {
  if (!isOperator.value) return html`<${ForOperators} />`;
  return id ? html`<${Explanation} id=${id} />` : html`<${Service} />`;
};
