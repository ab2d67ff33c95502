// What the calls of models cost, day by day.
import { html } from "../../lib.js";
import { get, organization, session } from "../../core/api.js";
import { useGet, useResource } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { dayAfter, now, utcDay } from "../../core/words.js";
import { Button, DateField, Empty, Line, Loaded, Money, namesOf, Page, QueryChoice, saveFile, Table } from "../../ui/ui.js";
import { MEASURES, UsageChart, usageCsv, UsageTable, usualMeasure } from "../../ui/usage_chart.js";

const PRESETS = [7, 30, 90, 365];
const DAY = /^\d{4}-\d\d-\d\d$/;

const period = () => {
  const { from, to } = query.value;
  const last = DAY.test(to) ? to : utcDay(now.peek());
  return { from: DAY.test(from) ? from : dayAfter(last, -29), to: last };
};

const download = (usage) => {
  const { from, to } = period();
  saveFile(new Blob([usageCsv(usage)], { type: "text/csv" }), `usage_${from}_${to}.csv`);
};

const Period = ({ from, to }) => {
  const today = utcDay(now.peek());
  const date = (name, value) =>
    html`<label>${name} <${DateField} value=${value} change=${(day) => day && setQuery({ from, to, [name]: day, day: null })} /></label>`;
  return html`<div class="actions usage-period" role="group" aria-label="Period">
    ${PRESETS.map((days) => {
      const start = dayAfter(today, 1 - days);
      const isChosen = from === start && to === today;
      return html`<button class="quiet" aria-pressed=${isChosen} onClick=${() => setQuery({ from: start, to: today, day: null })}>${days} days</button>`;
    })}
    ${date("from", from)} ${date("to", to)}
  </div>`;
};

const Filters = ({ from, to, measure }) => {
  const { template = "", agent = "", organization: owner = "" } = query.value;
  const templates = useGet("/api/templates/", { limit: 500 });
  const { data: known } = useResource(() => (agent ? get(`/api/cloud/agents/${encodeURIComponent(agent)}/`) : Promise.resolve(null)), [agent]);
  const { organizations = [] } = session.value;
  return html`<div class="filters">
    <${Period} from=${from} to=${to} />
    <${QueryChoice} label="Show" name="by" value=${measure} options=${Object.entries(MEASURES).map(([id, { label }]) => [id, label])} />
    <${QueryChoice} label="Template" name="template" options=${[["", "all"], ...namesOf(templates.data, template)]} />
    ${organizations.length > 1 &&
    html`<${QueryChoice} label="Organization" name="organization" options=${[["", "all"], ...namesOf(organizations, owner)]} />`}
    ${agent &&
    html`<span class="badge">Agent: <${Line} value=${known?.name ?? agent} max=${60} />
      <button class="quiet" aria-label="All agents" onClick=${() => setQuery({ agent: null })}>✕</button></span>`}
  </div>`;
};

const Totals = ({ total, days }) => html`<dl class="usage-total">
  <div><dt>Cost</dt><dd><${Money} amount=${total.total_cost_usd} unpriced=${!total.priced} /></dd></div>
  <div><dt>Calls</dt><dd>${total.llm_calls.toLocaleString("en")}</dd></div>
  <div><dt>Input tokens</dt><dd>${total.input_tokens.toLocaleString("en")}</dd></div>
  <div><dt>of them from a cache</dt><dd>${total.cached_tokens.toLocaleString("en")}</dd></div>
  <div><dt>Output tokens</dt><dd>${total.output_tokens.toLocaleString("en")}</dd></div>
  <div><dt>Days with calls</dt><dd>${days.length}</dd></div>
</dl>`;

const AGENT_COLUMNS = [
  { title: "Agent", cell: ({ agent, name }) => html`<a href="/console/agents/${agent}/usage"><${Line} value=${name || agent} max=${80} /></a>` },
  { title: "Cost", number: true, cell: (row) => html`<${Money} amount=${row.total_cost_usd} unpriced=${row.priced === false} />` },
  { title: "Calls", number: true, cell: (row) => row.llm_calls.toLocaleString("en") },
];

/** Show the most expensive agents; they are read after the chart, because this takes longer. */
const TopAgents = ({ filters }) => {
  const { data } = useGet("/api/cloud/usage/", { ...filters, top_agents: 10 });
  if (!data?.top_agents.length) return null;
  return html`<h2>Agents that cost the most</h2>
    <${Table} columns=${AGENT_COLUMNS} rows=${data.top_agents} id=${(row) => row.agent} label="Agents that cost the most" />`;
};

const showDay = (day) => setQuery({ day }, { replace: true });

const Report = ({ usage, filters, measure }) => {
  const { day } = query.value;
  return html`<div class="stack">
    <section class="card">
      <${Totals} total=${usage.total} days=${usage.days} />
      <${UsageChart} usage=${usage} measure=${measure} day=${day} onDay=${showDay} />
    </section>
    ${!filters.agent && html`<${TopAgents} filters=${filters} />`}
    <h2>${MEASURES[measure].label} by day and model</h2>
    <${UsageTable} usage=${usage} measure=${measure} day=${day} onDay=${showDay} />
  </div>`;
};

const NOTHING = html`<${Empty} title="No model was called in this period">
  <p>Choose a longer period, or wake an agent: each call of a model appears here with its tokens and its cost.</p>
  <p><a href="/console/agents">Go to the agents</a></p>
<//>`;

/** Show the Usage screen. */
export default function Usage() {
  const { from, to } = period();
  const { template, agent, organization: owner } = query.value;
  const filters = { start_date: from, end_date: dayAfter(to), template, agent, organization: owner };
  const usage = useResource((signal) => get("/api/cloud/usage/", filters, signal), [JSON.stringify(filters), organization.value?.id], {
    events: ["run.ended"],
  });
  const measure = Object.hasOwn(MEASURES, query.value.by ?? "") ? query.value.by : usage.data ? usualMeasure(usage.data) : "cost";
  const actions = html`<${Button} disabled=${!usage.data} run=${() => download(usage.data)}>Download CSV<//>`;
  return html`<${Page} title="Usage" actions=${actions}>
    <${Filters} from=${from} to=${to} measure=${measure} />
    <${Loaded} of=${usage}>
      ${(data) => (data.total.llm_calls ? html`<${Report} usage=${data} filters=${filters} measure=${measure} />` : NOTHING)}
    <//>
  <//>`;
}
