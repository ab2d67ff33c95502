// Measurements with their last minutes as a line. The line lives in the memory of the tab.
import { html } from "../../lib.js";
import { formatDuration } from "../../core/time.js";

const KEPT = 150; // five minutes, at a reading every two seconds
const WIDTH = 150;
const HEIGHT = 32;
const history = new Map();

/** Remember the measurements of one reading. */
export const remember = (values) => {
  for (const [name, value] of Object.entries(values)) {
    history.set(name, [...(history.get(name) ?? []).slice(1 - KEPT), value ?? 0]);
  }
};

const points = (values) => {
  const top = Math.max(...values, 1e-9);
  const step = WIDTH / (KEPT - 1);
  const start = WIDTH - (values.length - 1) * step;
  return values.map((value, index) => `${(start + index * step).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`).join(" ");
};

const Sparkline = ({ name }) => {
  const values = history.get(name) ?? [];
  return html`<svg class="service-line" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    ${values.length > 1 && html`<polyline points=${points(values)} vector-effect="non-scaling-stroke" />`}
  </svg>`;
};

/** Show a measurement: its name, its value, what else belongs to it, and its line. */
export const Tile = ({ name, title, value, children }) => html`<section class="card service-tile" aria-label=${title}>
  <h2>${title}</h2>
  <p class="service-value">${value}</p>
  <${Sparkline} name=${name} />
  <p class="muted"><small>${children}</small></p>
</section>`;

/** Return milliseconds in words. */
export const duration = (ms) => (ms == null ? "–" : ms > 0 && ms < 1 ? "< 1 ms" : formatDuration(ms / 1000));

/** Show a fact of a list of facts. */
export const Fact = ({ name, children }) => html`<dt>${name}</dt><dd>${children}</dd>`;
