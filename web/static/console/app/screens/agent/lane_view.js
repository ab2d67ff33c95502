// What the address says of the day lane: the days, the zoom, and the item that is selected.
import { query, setQuery } from "../../core/router.js";
import { dayAfter, zoneName } from "../../core/time.js";
import { columnAt, dayLane, dayOf, instantAt } from "./lane_days.js";
import { instant } from "./lane_items.js";

export const DAY_COUNTS = [1, 3, 7, 31];
const MIN_COLUMNS = 10 / 3600; // ten seconds
const DAY = /^[12]\d{3}-\d\d-\d\d$/;

const iso = (at) => new Date(Math.round(at)).toISOString();

/** Return the days to show, each with its columns, and the part of the columns that is seen. */
export const useLaneView = (agent) => {
  const { day, days, at, item, from, to } = query.value;
  const zone = zoneName(agent.timezone);
  const today = dayOf(Date.now(), zone);
  const selectedAt = instant(at) || null;
  const isDay = (text) => DAY.test(text) && !Number.isNaN(Date.parse(text));
  const last = [day, selectedAt && dayOf(selectedAt, zone)].find(isDay) ?? today;
  const count = DAY_COUNTS.includes(Number(days)) ? Number(days) : 1;
  const isAligned = count > 1;
  const lanes = Array.from({ length: count }, (_, index) => dayLane(dayAfter(last, index + 1 - count), zone, isAligned));
  const own = lanes.at(-1);
  const seen = { from: columnAt(own, Date.parse(from)), to: columnAt(own, Date.parse(to)) };
  const isZoomed = seen.to - seen.from >= MIN_COLUMNS / 2;
  const view = isZoomed ? seen : { from: 0, to: own.columns };
  const laneOf = (at) => lanes.find(({ start, end }) => start <= at && at < end) ?? (at < own.start ? lanes[0] : own);
  return { zone, laneOf, today, day: last, count, isAligned, lanes, own, view, isZoomed, at: selectedAt, item };
};

/** Select an item. One of another day of the stack stays in view; null selects the present. */
export const selectItem = (one) =>
  setQuery({ at: one && (one.kind === "band" ? one.start : iso(one.at)), item: one?.id ?? null }, { replace: true });

/** Show other days; the selection and the zoom end. */
export const showDays = ({ day, count, today }, at = null) =>
  setQuery({
    day: day === today ? null : day,
    days: count === 1 ? null : count,
    at: at && iso(at),
    item: null,
    from: null,
    to: null,
  });

/** Show `size` columns around a column. */
export const showColumns = ({ own }, center, size) => {
  const length = Math.min(Math.max(size, MIN_COLUMNS), own.columns);
  const from = Math.min(Math.max(center - length / 2, 0), own.columns - length);
  const isAll = length >= own.columns;
  const limits = isAll ? { from: null, to: null } : { from: iso(instantAt(own, from)), to: iso(instantAt(own, from + length)) };
  setQuery(limits, { replace: true });
};
