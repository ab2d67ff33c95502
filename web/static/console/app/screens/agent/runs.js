// The wake ledger: each run of an agent with why it woke, what it did, and what it cost.
import { html } from "../../lib.js";
import { useRows } from "../../core/keys.js";
import { usePages } from "../../core/resource.js";
import { navigate, query } from "../../core/router.js";
import { formatDuration, now } from "../../core/time.js";
import { money, plural, reasonWords } from "../../core/words.js";
import { Empty, Instant, Line, Loaded, QueryChoice, VirtualRows } from "../../ui/ui.js";
import { journalWords, Outcome, OUTCOMES, secondsOf } from "./run_words.js";

const REASONS = [
  "notification",
  "reminder",
  "run_requested",
  "sleep_elapsed",
  "retry_after_failure",
  "uncleared_notifications",
  "restart_recovery",
];
const ALL = ["", "all"];
const HEIGHT = 84;

const Row = ({ run, agent, isSelected }) => html`<a class="agent-run" aria-current=${isSelected} href="/console/agents/${agent.id}/runs/${run.id}">
  <span class="split">
    <span><${Instant} at=${run.started_at} zone=${agent.timezone} /> · woken by ${reasonWords(run.wake_reason)}
      ${run.notification_count > 0 && ` · ${plural(run.notification_count, "notification")}`}</span>
    <span class="number">
      <${Outcome} of=${run} /> ${formatDuration(secondsOf(run, run.ended_at ? 0 : now.value))} · ${plural(run.turns, "turn")}
      ${run.journal && ` · ${money(run.journal.cost_usd)}`}
    </span>
  </span>
  <span class="muted"><${Line} value=${(run.journal?.woken_by ?? []).join(" · ")} /></span>
  ${run.error
    ? html`<span class="error"><${Line} value=${run.error} /></span>`
    : html`<span><${Line} value=${journalWords(run)} max=${300} /></span>`}
</a>`;

const NONE = html`<${Empty} title="No runs">
  <p>Each time the agent wakes there is a run. Send it a text, or choose other filters.</p>
<//>`;

/** Show the runs of an agent. */
export default ({ agent }) => {
  const { outcome, reason } = query.value;
  const path = `/api/cloud/agents/${agent.id}/runs/`;
  const runs = usePages(path, { outcome, wake_reason: reason, limit: 100 }, { events: ["run.*"], agent: agent.id });
  const ids = (runs.data ?? []).map((one) => one.id);
  const open = (id) => navigate(`/console/agents/${agent.id}/runs/${id}`);
  const { selected } = useRows({ ids, open, name: "run" });
  const row = (list) => (index) => html`<${Row} run=${list[index]} agent=${agent} isSelected=${list[index].id === selected} />`;
  return html`<div class="filters">
      <${QueryChoice} name="outcome" label="Outcome" options=${[ALL, ...Object.entries(OUTCOMES)]} data-filter />
      <${QueryChoice} name="reason" label="Woken by" options=${[ALL, ...REASONS.map((one) => [one, one === "notification" ? "a notification" : reasonWords(one)])]} />
    </div>
    <${Loaded} of=${runs} empty=${NONE}>
      ${(list) => html`<${VirtualRows} label="Runs" count=${list.length} height=${HEIGHT} row=${row(list)} selected=${ids.indexOf(selected)} onEnd=${runs.more} style=${{ minHeight: 0, maxHeight: `${list.length * HEIGHT + 2}px` }} />`}
    <//>`;
};
