// Moments that people type: in UTC if that is the chosen zone, else in the zone of the browser.
import { html } from "../../lib.js";
import { formatInput, zone, zoneName } from "../../core/time.js";

/** Return the words that say in which zone moments are typed. */
export const zoneWords = () => (zone.value === "utc" ? "UTC" : "your time");

/** Return the instant of a typed moment as text, or null for none. */
export const toInstant = (text) => {
  if (!text) return null;
  const moment = new Date(zone.value === "utc" ? `${text}Z` : text);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
};

const toInput = (instant) => (Number.isNaN(Date.parse(instant)) ? "" : formatInput(instant, zoneName()).slice(0, 16));

/** Show a field for a moment; `change` gets the instant, or null. */
export const MomentField = ({ label, value, change, ...rest }) => html`<label class="queue-moment">
  ${label} <input type="datetime-local" value=${value ? toInput(value) : ""} onChange=${(event) => change?.(toInstant(event.target.value))} ...${rest} />
</label>`;
