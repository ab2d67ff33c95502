// How many agents are in which phase.
import { html } from "../../lib.js";
import { PhaseBadge } from "../../ui/ui.js";

/** Show the counts as a bar and as words; `href(phase)` makes the words links. */
export const Phases = ({ phases, href }) => {
  const pairs = Object.entries(phases);
  if (!pairs.length) return null;
  return html`<div class="now-phases">
    <div class="now-bar" aria-hidden="true">
      ${pairs.map(([phase, count]) => html`<i key=${phase} class="now-part-${phase}" style=${{ flexGrow: count }}></i>`)}
    </div>
    <ul aria-label="Agents by phase">
      ${pairs.map(([phase, count]) => {
        const text = html`<${PhaseBadge} phase=${phase} /> ${count.toLocaleString("en")}`;
        return html`<li key=${phase}>${href ? html`<a href=${href(phase)}>${text}</a>` : text}</li>`;
      })}
    </ul>
  </div>`;
};
