// One agent in the list.
import { html } from "../../lib.js";
import { localize } from "../../core/time.js";
import { money } from "../../core/words.js";
import { Instant, Line, PhaseBadge, Relative, Sentence } from "../../ui/ui.js";

const SHOWN_TAGS = 3;

const Cost = ({ cost, cap }) => {
  if (cap === null) return html`<div class="agents-cost"><span class="number">${money(cost)}</span></div>`;
  const share = cap === 0 ? 1 : Math.min(1, cost / cap);
  const label = `${money(cost)} of ${money(cap)} today`;
  return html`<div class="agents-cost" title=${label}>
    <span class="number">${money(cost)}</span> <small>of ${money(cap)}</small>
    <div class="agents-bar ${share >= 1 ? "full" : share >= 0.8 ? "near" : ""}" role="img" aria-label=${label}>
      <div style=${{ width: `${share * 100}%` }}></div>
    </div>
  </div>`;
};

const NextWake = ({ wake, zone }) =>
  wake
    ? html`<div class="agents-wake" title=${localize(wake.because, zone)}><${Relative} at=${wake.at} /><small><${Instant} at=${wake.at} zone=${zone} /></small></div>`
    : html`<div class="agents-wake muted" title="Only something new can wake it."><span aria-hidden="true">–</span><span class="hidden">no next wake</span></div>`;

const Tags = ({ tags }) =>
  html`${tags.slice(0, SHOWN_TAGS).map((tag) => html`<span class="badge agents-label" key=${tag}><${Line} value=${tag} max=${40} /></span>`)}
  ${tags.length > SHOWN_TAGS && html`<small>+${tags.length - SHOWN_TAGS}</small>`}`;

/** Show an agent: its name, phase and tags above the sentence; its next wake, cost and waiting work beside them. */
export const AgentRow = ({ row, isCurrent, isSelected, toggle, select }) => {
  const { agent, name, phase, why, tags, timezone: zone, next_wake: wake, uncleared_high: highs } = row;
  return html`<div class="agents-row ${isCurrent ? "current" : ""} ${row.isGone ? "gone" : ""}" onClick=${() => select(agent)}>
    <label class="agents-check" onClick=${(event) => event.stopPropagation()}>
      <input type="checkbox" aria-label="Select ${name}" checked=${isSelected} onClick=${(event) => toggle(agent, event.shiftKey)} />
    </label>
    <div class="agents-main">
      <div class="agents-name">
        <a href="/console/agents/${agent}" aria-current=${isCurrent ? "true" : undefined}><${Line} value=${name} max=${120} /></a>
        ${row.isGone ? html`<span class="badge bad">deleted</span>` : html`<${PhaseBadge} phase=${phase} />`}
        <${Tags} tags=${tags} />
      </div>
      <div class="agents-why" title=${localize(why, zone)}><${Sentence} text=${why} zone=${zone} /></div>
    </div>
    <${NextWake} wake=${wake} zone=${zone} />
    <${Cost} cost=${row.cost_today_usd} cap=${row.max_cost_usd_per_day} />
    <div class="agents-highs">${highs > 0 && html`<span class="badge warn" title="active high notifications">${highs.toLocaleString("en")}<span class="agents-words"> uncleared</span></span>`}</div>
  </div>`;
};
