// The shapes of one day, as the `d` of SVG paths. However many bands there are, a day has a few paths only.
import { PHASES } from "../../core/words.js";
import { columnAt } from "./lane_days.js";

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
