// The wakes of the next 24 hours, hour by hour.
import { html } from "../../lib.js";
import { formatIn, now, zoneName } from "../../core/time.js";
import { Instant, Line, Sentence } from "../../ui/ui.js";

const HOUR = 3600_000;

/** Return the time zone that all agents share, or null. */
const sharedZone = (items) => {
  const zones = new Set(items.map((item) => item.timezone));
  return zones.size === 1 ? [...zones][0] : null;
};

const byHour = (items, name, moment) => {
  const hours = new Map();
  for (const item of items) {
    const key = Date.parse(item.at) <= moment ? "" : formatIn(item.at, name).slice(0, 13);
    hours.set(key, [...(hours.get(key) ?? []), item]);
  }
  return [...hours];
};

const hourWords = (key, name, moment) => {
  if (!key) return "Due now";
  const days = [formatIn(moment, name), formatIn(moment + 24 * HOUR, name)].map((text) => text.slice(0, 10));
  const word = ["Today", "Tomorrow"][days.indexOf(key.slice(0, 10))] ?? key.slice(0, 10);
  return `${word}, ${key.slice(11)}:00`;
};

const Wake = ({ item, zone }) => html`<li class="now-wake">
  <${Instant} at=${item.at} zone=${zone} style="time" />
  <div>
    <a href=${item.href ?? `/console/agents/${item.agent}`}><${Line} value=${item.agent_name} max=${60} /></a>
    <small><${Sentence} text=${item.because} zone=${zone} /></small>
  </div>
</li>`;

/** Show the wakes by hour; `total` is the number of all, `note` says what else there is to know. */
export const Agenda = ({ items, total, note }) => {
  const zone = sharedZone(items);
  const name = zoneName(zone);
  const moment = Math.floor(now.value / 60_000) * 60_000;
  return html`<section class="card now-agenda" aria-label="Agenda">
    <h2>Next 24 hours</h2>
    ${items.length === 0 && html`<p class="muted">No agent is going to wake by itself. Something new can wake it at any time.</p>`}
    ${byHour(items, name, moment).map(
      ([key, wakes]) => html`<h3 key=${`h${key}`}>${hourWords(key, name, moment)}</h3>
        <ol key=${key}>${wakes.map((item) => html`<${Wake} key=${item.agent} item=${item} zone=${zone} />`)}</ol>`,
    )}
    ${total > items.length && html`<p class="muted">${(total - items.length).toLocaleString("en")} later wakes are not shown. <a href="/console/agents?sort=next_wake">List agents by their next wake</a></p>`}
    ${note && html`<p class="muted">${note}</p>`}
    ${items.length > 0 && html`<p class="muted"><small>Times in ${name}</small></p>`}
  </section>`;
};
