// The zone of all times in the console.
import { html } from "../lib.js";
import { chooseZone, zone } from "../core/time.js";

const ZONES = [["agent", "Agent's time"], ["utc", "UTC"], ["local", "My time"]];

/** Choose whose time the console shows. */
export const ZoneChoice = () => html`<select
  class="zone"
  aria-label="Time zone of all times"
  onChange=${(event) => chooseZone(event.target.value)}
>
  ${ZONES.map(([value, label]) => html`<option value=${value} selected=${value === zone.value}>${label}</option>`)}
</select>`;
