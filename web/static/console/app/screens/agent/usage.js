// What an agent has used in the last 30 days.
import { html } from "../../lib.js";
import { useGet } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { dayAfter, utcDay } from "../../core/words.js";
import { Empty, Loaded } from "../../ui/ui.js";
import { UsageChart, UsageTable, usualMeasure } from "../../ui/usage_chart.js";

const NONE = html`<${Empty} title="No model was called in the last 30 days">
  <p>Each call of a model appears here with its tokens and its cost.</p>
<//>`;

const Report = ({ agent, usage }) => {
  const { day } = query.value;
  const measure = usualMeasure(usage);
  const show = (chosen) => setQuery({ day: chosen, days: null, at: null, item: null, from: null, to: null });
  return html`<div class="stack">
    <section class="card"><${UsageChart} usage=${usage} measure=${measure} day=${day} onDay=${show} /></section>
    <${UsageTable} usage=${usage} measure=${measure} day=${day} />
    <p><a href="/console/usage?agent=${agent.id}">Other days and measures</a></p>
  </div>`;
};

/** Show the usage of an agent. A day that is chosen is shown in the day lane, too. */
export default ({ agent }) => {
  const today = utcDay(Date.now());
  const period = { agent: agent.id, start_date: dayAfter(today, -29), end_date: dayAfter(today) };
  const usage = useGet("/api/cloud/usage/", period, {
    events: ["run.ended"],
    agent: agent.id,
  });
  return html`<${Loaded} of=${usage}>
    ${(data) => (data.total.llm_calls ? html`<${Report} agent=${agent} usage=${data} />` : NONE)}
  <//>`;
};
