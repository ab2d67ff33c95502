// The filters of the queue, all of them in the address.
import { html } from "../../lib.js";
import { query, setQuery } from "../../core/router.js";
import { SOURCES } from "../../core/words.js";
import { AgentPicker, Choice } from "../../ui/ui.js";
import { MomentField, zoneWords } from "./moments.js";

const PERIODS = ["created_after", "created_before", "scheduled_after", "scheduled_before"];
const STATES = [["", "uncleared"], ["cleared", "cleared"], ["all", "cleared or not"]];
const CLEARED = new Map([["", false], ["cleared", true]]);

/** Return the filters in the address as parameters of the API. */
export const filtersOf = (address) => {
  const { agent, source, priority, state = "" } = address;
  return { agent, source, priority, cleared: CLEARED.get(state), ...Object.fromEntries(PERIODS.map((name) => [name, address[name]])) };
};

/** Return whether the address filters at all. */
export const hasFilters = () => ["agent", "source", "priority", "state", ...PERIODS].some((name) => query.value[name]);

const filter = (changes) => setQuery({ ...changes, notification: null }, { replace: true });
const choose = (name) => (value) => filter({ [name]: value });

/** Remove all filters. */
export const clearFilters = () => filter(Object.fromEntries(["agent", "source", "priority", "state", ...PERIODS].map((name) => [name, null])));

const Periods = () => {
  const set = PERIODS.filter((name) => query.value[name]).length;
  const field = (name, label) => html`<${MomentField} label=${label} value=${query.value[name]} change=${choose(name)} />`;
  const ahead = () => filter({ scheduled_after: new Date().toISOString(), scheduled_before: null });
  return html`<details class="agents-further" open=${set > 0}>
    <summary>Times${set > 0 && ` (${set})`}</summary>
    <div class="filters">
      ${field("created_after", "Created from")} ${field("created_before", "to before")}
      ${field("scheduled_after", "Due from")} ${field("scheduled_before", "to before")}
      <small>${zoneWords()}</small> <button class="quiet" onClick=${ahead}>Reminders ahead</button>
    </div>
  </details>`;
};

/** Show the filters. */
export const Filters = () => {
  const { agent, source, priority, state } = query.value;
  return html`<div class="filters">
      <${AgentPicker} label="Agent" placeholder="any agent" value=${agent} change=${choose("agent")} data-filter />
      <${Choice} label="State" value=${state} options=${STATES} change=${choose("state")} />
      <${Choice} label="Priority" value=${priority} options=${[["", "any priority"], ["high", "high"], ["low", "low"]]} change=${choose("priority")} />
      <${Choice} label="Source" value=${source} options=${[["", "any source"], ...Object.entries(SOURCES)]} change=${choose("source")} />
      ${hasFilters() && html`<button class="quiet" onClick=${clearFilters}>Remove all filters</button>`}
    </div>
    <${Periods} />`;
};
