// Runs as a list, of one agent or across agents: why each woke, how it ended, what failed in it, and its cost.
import { html, useRef } from "../../lib.js";
import { get } from "../../core/api.js";
import { useRows } from "../../core/keys.js";
import { useAgentsOf, useLiveRows } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { costWords, formatDuration, Instant, now, plural, reasonWords } from "../../core/words.js";
import { AgentPicker, Badge, Empty, Line, Loaded, Page, QueryChoice, VirtualRows } from "../../ui/ui.js";
import { journalWords, Outcome, OUTCOMES, secondsOf } from "../agent/run_words.js";

const REASONS = [
  "notification",
  "reminder",
  "run_requested",
  "sleep_elapsed",
  "retry_after_failure",
  "uncleared_notifications",
  "restart_recovery",
];
const SHOWN = {
  person: ["needs a person", { needs_person: true }],
  failed: ["with failed calls", { has_failed_calls: true }],
  active: ["under way", { active: true }],
};
const ALL = ["", "all"];
const PAGE = 100;
const HEIGHT = 84;
const NARROW_HEIGHT = 108;

/** Show what went wrong in a run, as badges. */
const Failures = ({ run: { failed_calls: calls, journal, needs_person: isWaiting } }) => html`
  ${isWaiting && html`<${Badge} tone="bad">needs a person<//>`}
  ${calls > 0 && html`<${Badge} tone="warn">${plural(calls, "failed call")}<//>`}
  ${journal?.failed_count > 0 && html`<${Badge} tone="bad">${journal.failed_count} not sent<//>`}
`;

const Row = ({ run, agent, zone, isSelected }) => html`<a class="agent-run" aria-current=${isSelected} href="/console/agents/${run.agent}/runs/${run.id}">
  <span class="split">
    <span>${agent && html`<strong><${Line} value=${agent.name} max=${60} /></strong> · `}<${Instant} at=${run.started_at} zone=${zone} /> · woken by ${reasonWords(run.wake_reason)}
      ${run.notification_count > 0 && ` · ${plural(run.notification_count, "notification")}`}</span>
    <span class="number">
      <${Outcome} of=${run} /> ${formatDuration(secondsOf(run, run.ended_at ? 0 : now.value))} · ${plural(run.turns, "turn")}
      ${run.journal && ` · ${costWords(run.journal.cost_usd, run.journal.unpriced_calls)}`}
    </span>
  </span>
  <span class="muted"><${Failures} run=${run} /> <${Line} value=${(run.journal?.woken_by ?? []).join(" · ")} /></span>
  ${run.error
    ? html`<span class="error"><${Line} value=${run.error} /></span>`
    : html`<span><${Line} value=${journalWords(run)} max=${300} /></span>`}
</a>`;

const NONE = html`<${Empty} title="No runs">
  <p>Each time an agent wakes there is a run. Send an agent a text, or choose other filters.</p>
<//>`;

const useRuns = (own) => {
  const { outcome, reason, show } = query.value;
  const agent = own?.id ?? query.value.agent;
  const list = useRef(null);
  list.current = useLiveRows({
    path: "/api/cloud/runs/",
    query: { agent, outcome, wake_reason: reason, ...SHOWN[show]?.[1], limit: PAGE },
    idOf: (run) => run.id,
    types: ["run.*"],
    idIn: (event) => event.run,
    isNew: (event) => event.type === "run.started" && (!agent || event.agent === agent),
    isNewestFirst: true,
    batch: 10,
    read: (ids) =>
      Promise.all(
        ids.map((id) => get(`/api/cloud/agents/${list.current.rows[list.current.places.get(id)].agent}/runs/${id}/`)),
      ),
    isMoved: () => false,
  });
  return list.current;
};

const Filters = ({ own }) => html`<div class="filters">
  ${!own && html`<${AgentPicker} label="Agent" placeholder="any agent" value=${query.value.agent} change=${(agent) => setQuery({ agent, run: null }, { replace: true })} data-filter />`}
  <${QueryChoice} label="Show" name="show" options=${[ALL, ...Object.entries(SHOWN).map(([id, [words]]) => [id, words])]} data-filter=${own && ""} />
  <${QueryChoice} label="Outcome" name="outcome" options=${[ALL, ...Object.entries(OUTCOMES)]} />
  <${QueryChoice} label="Woken by" name="reason" options=${[ALL, ...REASONS.map((one) => [one, one === "notification" ? "a notification" : reasonWords(one)])]} />
</div>`;

const RunList = ({ agent: own }) => {
  const runs = useRuns(own);
  const { rows, places, moved } = runs;
  const agents = useAgentsOf(own ? [] : rows);
  const open = (id) => navigate(`/console/agents/${rows[places.get(id)].agent}/runs/${id}`);
  const { selected } = useRows({ ids: rows.map(({ id }) => id), open, name: "run" });
  const height = matchMedia("(max-width: 760px)").matches ? NARROW_HEIGHT : HEIGHT;
  const zoneOf = (run) => (own ?? agents.get(run.agent))?.timezone;
  return html`<${Filters} own=${own} />
    ${moved.size > 0 && html`<p><button class="agents-moved" onClick=${runs.reload}>${moved.size.toLocaleString("en")} new · show</button></p>`}
    <${Loaded} of=${runs} empty=${NONE}>
      ${() => html`<${VirtualRows}
        count=${rows.length}
        height=${height}
        row=${(index) => html`<${Row} run=${rows[index]} agent=${!own && (agents.get(rows[index].agent) ?? { name: "…" })} zone=${zoneOf(rows[index])} isSelected=${rows[index].id === selected} />`}
        selected=${places.get(selected) ?? -1}
        onEnd=${runs.more}
        onView=${(first, last) => runs.see(first, last)}
        style=${{ minHeight: 0, maxHeight: `${rows.length * height + 2}px` }}
        label="Runs"
      />`}
    <//>`;
};

/** Show the runs of an agent, or those of all agents as a screen. */
export default ({ agent }) => {
  if (agent) return html`<${RunList} agent=${agent} />`;
  return html`<${Page} title="Runs"><${RunList} /><//>`;
};
