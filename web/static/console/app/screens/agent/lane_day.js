// One day of the lane as SVG: bands, lines of notifications, dots of other marks, and what lies ahead.
import { html, useMemo } from "../../lib.js";
import { isFrozen, live } from "../../core/live.js";
import { dayAfter, formatDuration, formatIn, formatInput, formatInstant, localize, now, PHASES } from "../../core/words.js";

// The days of a zone, and the place of an instant in its day. Places are columns, one to an hour.

const HOUR = 3_600_000;
const QUARTER = HOUR / 4;

/** Return what a clock in the zone shows, as milliseconds of a clock that knows no zones. */
const clockAt = (instant, zone) => {
  const whole = Math.floor(instant / 1000) * 1000;
  return Date.parse(`${formatInput(whole, zone)}Z`) + instant - whole;
};

/** Return the day of an instant, such as "2026-11-22". */
export const dayOf = (instant, zone) => formatIn(instant, zone).slice(0, 10);

/** Return the first instant of a day, also where the clock is set at midnight. */
const startOfDay = (day, zone) => {
  const midnight = Date.parse(day);
  let instant = midnight;
  instant += midnight - clockAt(instant, zone);
  instant += midnight - clockAt(instant, zone);
  return clockAt(instant, zone) < midnight ? instant + HOUR : instant;
};

/** Return pairs of an instant and its column, so that the same hour of all days has the same column. */
const alignedKnots = (day, start, end, zone) => {
  const midnight = Date.parse(day);
  const column = (instant) => (clockAt(instant, zone) - midnight) / HOUR;
  const knots = [[start, column(start)]];
  for (let at = start; at < end; at += QUARTER) {
    const shift = column(at + QUARTER) - column(at) - QUARTER / HOUR;
    const set = at + QUARTER;
    if (!shift || set === end) continue;
    // An hour that is left out is a gap; one that comes twice shares its column.
    if (shift > 0) knots.push([set, column(set) - shift], [set, column(set)]);
    else knots.push([set + shift * HOUR, column(set)], [set - shift * HOUR, column(set) - shift]);
  }
  return [...knots, [end, 24]];
};

/** Return a day with its limits, its length in hours, and the columns of its instants. */
export const dayLane = (day, zone, isAligned) => {
  const start = startOfDay(day, zone);
  const end = startOfDay(dayAfter(day, 1), zone);
  const hours = (end - start) / HOUR;
  const isPlain = !isAligned || hours === 24;
  const knots = isPlain ? [[start, 0], [end, hours]] : alignedKnots(day, start, end, zone);
  return { day, start, end, hours, columns: isAligned ? 24 : hours, knots };
};

const between = (knots, value, from, to) => {
  let index = 1;
  while (index < knots.length - 1 && knots[index][from] <= value) index += 1;
  const before = knots[index - 1];
  const after = knots[index];
  const length = after[from] - before[from];
  const share = length ? Math.min(Math.max((value - before[from]) / length, 0), 1) : 0;
  return before[to] + share * (after[to] - before[to]);
};

/** Return the column of an instant; one outside of the day has the nearest one. */
export const columnAt = (lane, instant) => between(lane.knots, instant, 0, 1);
/** Return the instant at a column. */
export const instantAt = (lane, column) => between(lane.knots, column, 1, 0);

const STEPS = [1 / 3600, 5 / 3600, 15 / 3600, 1 / 60, 5 / 60, 0.25, 0.5, 1, 2, 3, 6];
const clock = (column, hasSeconds) => new Date(Math.round(column * HOUR)).toISOString().slice(11, hasSeconds ? 19 : 16);

/** Return the columns that have a label, with their texts: at most `count` in what is seen. */
export const hourLabels = (lane, view, zone, isAligned, count) => {
  const step = STEPS.find((one) => (view.to - view.from) / one <= count) ?? 6;
  const labels = [];
  for (let index = Math.ceil(view.from / step - 1e-6); index * step <= view.to + 1e-6; index += 1) {
    const column = index * step;
    const text = formatIn(Math.round(instantAt(lane, column)), zone).slice(11, step < 1 / 60 ? 19 : 16);
    labels.push({ column, text: isAligned ? clock(column, step < 1 / 60) : text });
  }
  return labels;
};

// What a timeline tells, as items in the order of time: bands, marks, and what lies ahead.

/** Return the milliseconds of a timestamp of the service, with its microseconds as a fraction. */
export const instant = (text) => Date.parse(text) + (Number(/\.\d{3}(\d{3})/.exec(text)?.[1]) || 0) / 1000;

const maybe = (text) => (text ? instant(text) : null);

const band = (one) => ({ ...one, kind: "band", id: null, at: instant(one.start), until: instant(one.end) });

const mark = (one) => ({
  ...one,
  kind: "mark",
  id: String(one.event),
  start: one.at,
  at: instant(one.at),
  due: maybe(one.due_at),
  cleared: maybe(one.cleared_at),
});

const waiting = (one) => ({
  ...one,
  kind: "mark",
  type: "notification.created",
  id: one.notification,
  resource: one.notification,
  data: {},
  start: one.created_at,
  at: instant(one.created_at),
  due: maybe(one.due_at),
  cleared: maybe(one.cleared_at),
});

const ahead = (one) => ({ ...one, type: one.kind, kind: "ahead", id: one.resource ?? one.kind, start: one.at, at: instant(one.at) });

const SLACK_MS = 1000; // between the agent's row and its first event

/** Return the bands of an answer. The last one is open if it goes on at present; the period may cut the first and last. */
const bandsOf = ({ bands, start, end }, createdAt) =>
  bands.map((one, index) => {
    const isLast = index === bands.length - 1;
    const isBefore = one.phase === "unknown" && instant(one.end) <= instant(createdAt) + SLACK_MS;
    const phase = isBefore ? "not_yet" : one.phase;
    return { ...band(one), phase, isOpen: isLast && one.end < end, isCutBefore: one.start === start, isCutAfter: one.end === end };
  });

/** Return an answer of `timeline/` with its times as numbers; the agent did not exist before `createdAt`. */
export const readTimeline = (answer, createdAt) => ({
  ...answer,
  from: instant(answer.start),
  bands: bandsOf(answer, createdAt),
  marks: answer.marks.map(mark),
  waiting: answer.waiting.map(waiting),
  ahead: answer.ahead.map(ahead),
});

/** Return a timeline that goes on with a later one of the same end, whose period begins with its last band. */
export const continued = (old, later) => {
  const kept = old.bands.filter((one) => one.at < later.from);
  const clearings = new Map(later.marks.filter((one) => one.at < later.from).map((one) => [one.resource, one]));
  const isOver = (one) => one.type === "notification.created" && clearings.has(one.resource);
  const marks = old.marks.map((one) => {
    if (!isOver(one)) return one;
    const { cleared, cleared_at, cleared_by } = clearings.get(one.resource);
    clearings.delete(one.resource);
    return { ...one, cleared, cleared_at, cleared_by };
  });
  const [first, ...further] = later.bands;
  const joint = first && { ...first, isCutBefore: kept.length === 0 };
  const before = marks.filter((one) => one.at < later.from);
  return {
    ...later,
    start: old.start,
    from: old.from,
    marks_left_out: old.marks_left_out + later.marks_left_out,
    bands: [...kept, ...(joint ? [joint, ...further] : [])],
    marks: [...clearings.values(), ...before, ...later.marks.filter((one) => one.at >= later.from)],
    waiting: old.waiting.filter((one) => later.waiting.some(({ id }) => id === one.id)),
  };
};

const rank = { mark: 0, band: 1, ahead: 2 };

/** Return all items of a timeline in the order of time. */
export const itemsOf = ({ waiting: before, marks, bands, ahead: coming }) =>
  [...before, ...marks, ...bands, ...coming].sort((a, b) => a.at - b.at || rank[a.kind] - rank[b.kind]);

/** Return the index of the item with an id, else of the band at an instant, else the nearest one. */
export const findItem = (items, at, id) => {
  const named = id ? items.findIndex((one) => one.id === id) : -1;
  if (named >= 0) return named;
  const around = items.findIndex((one) => one.kind === "band" && one.at <= at && at < one.until);
  return around >= 0 ? around : items.findLastIndex((one) => one.kind === "band" && one.at <= at);
};

/** Return when each notification began to wait and when it no longer did; null: it waits still. */
export const waits = ({ marks, waiting: before }) => {
  const deleted = new Map(
    marks.filter((one) => one.type === "notification.deleted").map((one) => [one.resource, one.at]),
  );
  return [...before, ...marks]
    .filter((one) => one.type === "notification.created" || one.type === "notification.cleared")
    .map((one) => ({
      from: Math.max(one.at, one.due ?? 0),
      to: one.cleared ?? deleted.get(one.resource) ?? null,
      isHigh: (one.priority ?? one.data.priority) === "high",
    }));
};

// The words for the items of the day lane.

const MARKS = {
  "notification.created": "notification",
  "notification.cleared": "notification",
  "message.received": "message received",
  "message.sent": "message sent",
  "message.failed": "message not sent",
  "budget.reached": "budget spent",
  "webhook.given_up": "webhook delivery given up",
  "agent.asleep": "sleep begins",
  "agent.queued": "start requested",
};
const AHEAD = {
  wake: "next wake",
  retry: "retry",
  reminder: "reminder",
  schedule: "schedule",
  cap: "longest sleep ends",
  budget_renewal: "budget renewed",
};
const ACTORS = {
  run: "a run of the agent",
  key: "an API key",
  user: "a person",
  operator: "the operator",
  hook: "a hook",
  program: "another program",
  service: "the service",
};

/** Return the name of an item. */
export const wordOf = ({ kind, phase, type }) => {
  if (kind === "band") return PHASES[phase] ?? phase;
  if (kind === "ahead") return AHEAD[type] ?? type;
  return MARKS[type] ?? type.replace(/[._]/g, " ");
};

/** Return who did something, in words. */
export const actorWord = (actor) => ACTORS[actor?.type] ?? "";

/** Return from when to when an item lasted; `present` ends what goes on. */
export const spanWords = (one, zone, present) => {
  const day = formatInstant(one.at, zone, "day");
  const first = `${day} ${formatInstant(one.at, zone, "time")}`;
  const time = (at) => `${formatInstant(at, zone, "day") === day ? "" : `${formatInstant(at, zone, "day")} `}${formatInstant(at, zone, "time")}`;
  if (one.kind === "band") {
    const length = formatDuration(((one.isOpen ? Math.max(one.until, present) : one.until) - one.at) / 1000);
    const start = one.isCutBefore ? `before ${first}` : first;
    if (one.isOpen) return `since ${start} · ${one.isCutBefore ? "more than " : ""}${length}`;
    const isCut = one.isCutBefore || one.isCutAfter;
    return `${start} – ${one.isCutAfter ? "after " : ""}${time(one.until)} · ${isCut ? "more than " : ""}${length}`;
  }
  if (one.kind !== "mark" || !one.type.startsWith("notification.c")) return first;
  const end = one.cleared ? `cleared ${time(one.cleared)}` : "not cleared";
  const due = one.due ? ` · due ${time(one.due)}` : "";
  return `arrived ${first}${due} · ${end}`;
};

/** Return the sentence of an item. */
export const sentenceOf = (one, zone) => {
  if (one.kind === "ahead") return localize(one.because, zone);
  if (one.kind === "band") return one.why ? localize(one.why, zone) : "";
  if (one.data.why) return localize(one.data.why, zone);
  if (one.data.fields) return `Changed: ${one.data.fields.join(", ")}.`;
  if (one.data.error) return one.data.error;
  return "";
};

// The shapes of one day, as the `d` of SVG paths. However many bands there are, a day has a few paths only.

const MIN_WIDTH = 2; // pixels: a short run is seen, however long the day is
const CROWD = 4; // bands
const CROWD_WIDTH = 4; // pixels
const LETTER = 7; // pixels

const round = (value) => Math.round(value * 10) / 10;

/** Return a function from an instant to pixels in a day, of which the columns of `view` are seen. */
export const scaleOf = (lane, view, width) => (at) =>
  ((columnAt(lane, at) - view.from) / (view.to - view.from)) * width;

/** Collect rectangles by name, joining those that touch in a row. */
const collector = () => {
  const paths = new Map();
  const open = new Map();
  const write = (key) => {
    const { name, x, to, y, height } = open.get(key);
    paths.set(name, `${paths.get(name) ?? ""}M${round(x)} ${y}H${round(to)}V${round(y + height)}H${round(x)}z`);
  };
  const add = (name, x, to, y, height) => {
    const key = `${name} ${y}`;
    const last = open.get(key);
    if (last && last.height === height && x <= last.to + 0.3) {
      last.to = Math.max(last.to, to);
      return;
    }
    if (last) write(key);
    open.set(key, { name, x, to, y, height });
  };
  const finish = () => {
    for (const key of open.keys()) write(key);
    return paths;
  };
  return { add, finish };
};

const drawMixture = (add, { seconds }, x, to, top, height) => {
  const total = Object.values(seconds).reduce((sum, one) => sum + one, 0) || 1;
  let y = top;
  for (const phase of Object.keys(PHASES)) {
    if (!seconds[phase]) continue;
    const part = (seconds[phase] / total) * height;
    add(phase, x, to, round(y), round(part));
    y += part;
  }
};

/** Return one mixed band for the bands of a group, which are too short to be seen one by one. */
const mixtureOf = (group) => {
  const seconds = {};
  for (const { phase, at, until } of group) seconds[phase] = (seconds[phase] ?? 0) + (until - at) / 1000;
  return { phase: "mixed", at: group[0].at, until: group.at(-1).until, seconds };
};

/** Return bands of which those in a crowd are merged: four or more within a few pixels. */
const withoutCrowds = (bands, scale) => {
  const found = [];
  let group = [];
  const flush = () => {
    if (group.length >= CROWD) found.push(mixtureOf(group));
    else found.push(...group);
    group = [];
  };
  for (const band of bands) {
    if (group.length && scale(band.until) - scale(group[0].at) > CROWD_WIDTH) flush();
    group.push(band);
  }
  flush();
  return found;
};

/** Return the paths of the bands by phase, and the words of the bands that are wide enough. */
export const bandShapes = (bands, lane, scale, width, { top, height, low }) => {
  const { add, finish } = collector();
  const labels = [];
  const own = bands.filter((one) => one.until > lane.start && one.at < lane.end);
  for (const band of withoutCrowds(own, scale)) {
    const x = Math.max(scale(Math.max(band.at, lane.start)), 0);
    const end = Math.min(scale(Math.min(band.until, lane.end)), width);
    if (end < 0 || x > width || end < x) continue;
    const isLow = low.has(band.phase);
    const to = isLow ? end : Math.max(end, x + MIN_WIDTH);
    if (band.phase === "mixed") drawMixture(add, band, x, to, top, height);
    else if (isLow) add(band.phase, x, to, round(top + height * 0.6), round(height * 0.4));
    else add(band.phase, x, to, top, height);
    const word = PHASES[band.phase];
    if (band.phase !== "mixed" && to - x > word.length * LETTER + 12) labels.push({ x: round(x + 6), word });
  }
  const paths = [...finish()].sort(([a], [b]) => low.has(b) - low.has(a)); // short bands above the quiet ones
  return { paths, labels };
};

/** Return the paths of the lines from the arrival of notifications to their clearing, in `rows` rows from the top. */
export const waitShapes = (waiting, lane, scale, width, present, { rows, pitch }) => {
  const { add, finish } = collector();
  const ends = Array(rows).fill(-Infinity);
  for (const { from, to, isHigh } of waiting) {
    const until = to ?? present;
    if (until < lane.start || from >= lane.end) continue;
    const x = scale(Math.max(from, lane.start));
    const end = scale(Math.min(until, lane.end));
    if (end < -4 || x > width + 4) continue;
    const free = ends.findIndex((one) => one < x);
    const row = free < 0 ? rows - 1 : free;
    ends[row] = Math.max(ends[row], end + 2);
    const name = isHigh ? "high" : "low";
    add(name, Math.max(x, 0), Math.min(Math.max(end, x + 1), width), row * pitch + 1, 2);
    if (from >= lane.start) add(name, x, x + MIN_WIDTH, row * pitch, pitch);
  }
  return finish();
};

/** Return the path of dots for the other marks. */
export const dotShapes = (marks, lane, scale, width, y) => {
  let path = "";
  let last = -Infinity;
  for (const one of marks) {
    if (one.type.startsWith("notification.") || one.at < lane.start || one.at >= lane.end) continue;
    const x = round(scale(one.at));
    if (x < 0 || x > width || x - last < 3) continue;
    last = x;
    path += `M${x} ${y}l3 3l-3 3l-3 -3z`;
  }
  return path;
};

/** Return the item of a day that is drawn nearest to a place: the shortest of those at it. */
export const itemNear = (items, lane, scale, x, part) => {
  let best = null;
  for (const one of items) {
    const isBand = one.kind === "band";
    if (isBand !== (part === "bands") && one.kind !== "ahead") continue;
    if (isBand ? one.until <= lane.start || one.at >= lane.end : one.at < lane.start || one.at >= lane.end) continue;
    const start = scale(one.at);
    const end = isBand ? Math.max(scale(one.until), start + MIN_WIDTH) : start;
    const distance = Math.max(start - x, x - end, 0);
    const length = end - start;
    const isNearer = !best || distance < best.distance || (distance === best.distance && length < best.length);
    if (distance <= 6 && isNearer) best = { one, distance: Math.max(distance, 0), length };
  }
  return best?.one ?? null;
};

/** The patterns of the phases, which tell them apart without their colours. */
export const PATTERNS = {
  holding: "M0 6L6 0",
  queued: "M1 1h2v2h-2zM4 4h2v2h-2z",
  backing_off: "M0 0L6 6",
  quarantined: "M0 0L6 6M0 6L6 0",
  over_budget: "M0 2H6M0 5H6",
  held_by_limits: "M1 0V6M4 0V6M0 3H6",
  paused: "M1.5 0V6M4.5 0V6",
  stopping: "M3 0V6",
  archived: "M0 3H6",
};
const LOW = new Set(["asleep", "archived", "unknown", "not_yet"]);

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
