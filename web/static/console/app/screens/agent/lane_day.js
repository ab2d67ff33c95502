// One day of the lane as SVG: bands, lines of notifications, dots of other marks, and what lies ahead.
import { html, useMemo } from "../../lib.js";
import { isFrozen, live } from "../../core/live.js";
import { formatInstant, now } from "../../core/time.js";
import { bandShapes, dotShapes, itemNear, scaleOf, waitShapes } from "./lane_shapes.js";
import { wordOf } from "./lane_words.js";

/** The patterns of the phases, which tell them apart without their colours. */
export const PATTERNS = {
  holding: "M0 6L6 0",
  queued: "M1 1h2v2h-2zM4 4h2v2h-2z",
  backing_off: "M0 0L6 6",
  quarantined: "M0 0L6 6M0 6L6 0",
  over_budget: "M0 2H6M0 5H6",
  paused: "M1.5 0V6M4.5 0V6",
  stopping: "M3 0V6",
  archived: "M0 3H6",
};
const LOW = new Set(["asleep", "archived", "unknown"]);

/** Define the patterns for the whole page. */
export const Patterns = () => html`<svg class="hidden" aria-hidden="true">
  <defs>
    ${Object.entries(PATTERNS).map(
      ([phase, d]) => html`<pattern id="lane-${phase}" width="6" height="6" patternUnits="userSpaceOnUse">
        <path d=${d} class="lane-pattern" />
      </pattern>`,
    )}
  </defs>
</svg>`;

const Band = ({ phase, d }) => html`<path d=${d} class="lane-band lane-${phase}" />${PATTERNS[phase] && html`<path d=${d} fill="url(#lane-${phase})" />`}`;

/** Show the colour and the pattern of a phase. */
export const Swatch = ({ phase }) => html`<svg class="lane-swatch" width="18" height="12" aria-hidden="true">
  <${Band} phase=${phase} d=${LOW.has(phase) ? "M0 7H18V12H0z" : "M0 0H18V12H0z"} />
</svg>`;

/** Show the present as a line; until it the last band goes on, as long as the page is live. */
const Present = ({ lane, scale, size, last }) => {
  const isLive = live.value.state === "live" && !isFrozen.value;
  const at = now.value;
  if (at < lane.start || at >= lane.end) return null;
  const x = scale(at);
  const from = last && isLive && at > last.until ? scale(Math.max(last.until, lane.start)) : null;
  const top = last && LOW.has(last.phase) ? size.top + size.band * 0.6 : size.top;
  return html`${from !== null &&
    html`<${Band} phase=${last.phase} d="M${from} ${top}H${x}V${size.top + size.band}H${from}z" />`}
    <path class="lane-now" d="M${x} 0V${size.height}" />`;
};

const Coming = ({ items, lane, scale, size, width, zone }) => {
  let free = -Infinity;
  return items
    .filter((one) => one.at >= lane.start && one.at < lane.end)
    .map((one) => {
      const x = scale(one.at);
      const text = `${wordOf(one)} ${formatInstant(one.at, zone, "time").slice(0, 5)}`;
      const isLabelled = x >= free && x >= 0 && size.band > 14 && x + text.length * 6 < width;
      if (isLabelled) free = x + text.length * 6.5 + 8;
      return html`<path class="lane-ahead" d="M${x} 2V${size.height - 4}M${x - 4} ${size.top + size.band / 2}l4 -5l4 5l-4 5z" />
        ${isLabelled && html`<text class="lane-label" x=${x + 6} y=${size.top + size.band - 4}>${text}</text>`}`;
    });
};

const Selected = ({ one, lane, scale, size }) => {
  if (!one || (one.kind === "band" ? one.until <= lane.start : one.at < lane.start) || one.at >= lane.end) return null;
  const x = scale(Math.max(one.at, lane.start));
  if (one.kind !== "band") return html`<path class="lane-selected" d="M${x} 0V${size.height}" />`;
  const until = one.isOpen ? Math.max(one.until, now.value) : one.until;
  const to = Math.max(scale(Math.min(until, lane.end)), x + 4);
  return html`<rect class="lane-selected" x=${x - 1} y=${size.top - 2} width=${to - x + 2} height=${size.band + 4} rx="2" />`;
};

/** Return the parts of a day that change with the data and the zoom only. */
const useShapes = (timeline, waiting, lane, view, width, size) =>
  useMemo(() => {
    const scale = scaleOf(lane, view, width);
    const room = { top: size.top, height: size.band, low: LOW };
    const until = timeline.bands.at(-1)?.until ?? lane.start;
    return {
      scale,
      bands: bandShapes(timeline.bands, lane, scale, width, room),
      waits: waitShapes(waiting, lane, scale, width, until, size),
      dots: dotShapes(timeline.marks, lane, scale, width, size.top + size.band + 2),
    };
  }, [timeline, lane.start, lane.columns, view.from, view.to, width, size]);

/** Show a day; `select` gets the item that was clicked. */
export const LaneDay = ({ timeline, waiting, items, lane, view, width, size, selected, select, zone, isLive }) => {
  const { scale, bands, waits, dots } = useShapes(timeline, waiting, lane, view, width, size);
  const click = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const y = event.clientY - box.top;
    const part = y >= size.top - 2 && y <= size.top + size.band + 1 ? "bands" : "marks";
    const near = itemNear(items, lane, scale, event.clientX - box.left, part);
    if (near) select(near);
  };
  return html`<svg class="lane-svg" width=${width} height=${size.height} onClick=${click}>
    <path class="lane-track" d="M0 ${size.top}H${width}V${size.top + size.band}H0z" />
    ${[...waits].map(([name, d]) => html`<path d=${d} class="lane-wait-${name}" />`)}
    ${bands.paths.map(([phase, d]) => html`<${Band} phase=${phase} d=${d} />`)}
    <path d=${dots} class="lane-dots" />
    ${isLive && html`<${Present} lane=${lane} scale=${scale} size=${size} last=${timeline.bands.at(-1)} />`}
    ${size.band > 14 &&
    bands.labels.map(({ x, word }) => html`<text class="lane-label" x=${x} y=${size.top + size.band / 2 + 4}>${word}</text>`)}
    <${Coming} items=${timeline.ahead} lane=${lane} scale=${scale} size=${size} width=${width} zone=${zone} />
    <${Selected} one=${selected} lane=${lane} scale=${scale} size=${size} />
  </svg>`;
};
