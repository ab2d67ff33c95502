// The service as its operator sees it: what it does, how fast, and on what.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { isOperator } from "../../core/session.js";
import { plural } from "../../core/words.js";
import { Badge, Duration, Instant, Line, Loaded, Page, Sentence, Table } from "../../ui/ui.js";
import { Phases } from "../now/phases.js";
import { Agents } from "./agents.js";
import { Explanation } from "./explanation.js";
import { duration, Fact, remember, Tile } from "./tiles.js";

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

const leadWords = ({ is_held: isHeld, epoch, standbys }) =>
  `${isHeld ? "leads" : "is regaining the lead"}${epoch ? `, epoch ${epoch}` : ""}; ${standbys ? `${standbys} standing by` : "no standby"}`;

const harnessWords = ({ kind, containment, network, remaining }) => {
  if (kind !== "process") return "built in";
  return `processes, contained by ${containment}, network: ${network}${remaining ? `; ${remaining} runs have processes left` : ""}`;
};

const Facts = ({ status: { service, versions, lead, harness, timers, agents } }) => html`<section class="card" aria-label="Versions and parts">
  <h2>What it is made of</h2>
  <dl class="facts">
    <${Fact} name="hostsvc">${service.version}, up for <${Duration} seconds=${service.uptime_seconds} /><//>
    <${Fact} name="Python">${versions.python}<//>
    <${Fact} name="PostgreSQL">${versions.postgresql ?? "–"}, schema ${versions.schema ?? "–"}<//>
    <${Fact} name="Lead">${leadWords(lead)}<//>
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
