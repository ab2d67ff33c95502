// The days of a zone, and the place of an instant in its day. Places are columns, one to an hour.
import { dayAfter, formatIn, formatInput } from "../../core/time.js";

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
