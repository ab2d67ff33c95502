// Whether the page follows the service, and since when it does not.
import { html } from "../lib.js";
import { isFrozen, live, toggleFrozen } from "../core/live.js";
import { formatInstant } from "../core/time.js";

const words = () => {
  const { state, asOf } = live.value;
  const time = asOf ? formatInstant(asOf, null, "time") : "";
  if (isFrozen.value) return ["frozen", `as of ${time}`];
  if (state === "live") return ["live", "live"];
  if (state === "connecting") return ["reconnecting", "connecting"];
  return ["reconnecting", asOf ? `reconnecting, as of ${time}` : "reconnecting"];
};

/** Show whether the page is live; pressing it stops the page from changing. */
export const LiveBadge = () => {
  const [state, text] = words();
  const title = isFrozen.value ? "Let the page change again" : "Stop the page from changing";
  return html`<button class="live live-${state}" title=${title} onClick=${toggleFrozen}>
    <span aria-live="polite">${text}</span>
  </button>`;
};
