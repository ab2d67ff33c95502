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

/** Return the bands of an answer. The last one is open if it goes on at present; the period may cut the first and last. */
const bandsOf = ({ bands, start, end }) =>
  bands.map((one, index) => {
    const isLast = index === bands.length - 1;
    return { ...band(one), isOpen: isLast && one.end < end, isCutBefore: one.start === start, isCutAfter: one.end === end };
  });

/** Return an answer of `timeline/` with its times as numbers. */
export const readTimeline = (answer) => ({
  ...answer,
  from: instant(answer.start),
  bands: bandsOf(answer),
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
