// The spans of a trace: read page by page, ordered as a tree, and listed as the reader wants them.
import { getPage } from "../../core/api.js";

/** Return the end of a span's id, which stands for it in addresses that name many. */
export const shortId = (id) => id.slice(-12);

/** Read all pages of a trace; `show(spans)` is called with the spans so far after pages 1, 2, 4, … and the last. */
export const readSpans = async (traceId, signal, show) => {
  const read = (query) => getPage(`/api/tracing/traces/${traceId}/waterfall/`, query, signal);
  const columns = {};
  let page = read({});
  for (let count = 1; page; count += 1) {
    const { items, next } = await page;
    const { spans, ...trace } = items;
    page = next && read(next); // it travels while this one is drawn
    page?.catch(() => {});
    for (const name in spans) columns[name] = columns[name]?.concat(spans[name]) ?? spans[name];
    if (!next || !(count & (count - 1))) show(withTree({ ...columns, ...trace, isComplete: !next }));
  }
};

/** Return when a span ends, in microseconds since the start of the trace; an open one ends now. */
export const endAt = ({ starts_us: starts, durations_us: durations }, index, nowUs = 0) =>
  durations[index] === null ? Math.max(nowUs, starts[index]) : starts[index] + durations[index];

const withTree = (spans) => {
  const places = new Map(spans.ids.map((id, index) => [id, index]));
  const parents = spans.parents.map((id) => places.get(id) ?? -1);
  const children = new Map();
  parents.forEach((parent, index) => parent >= 0 && (children.get(parent)?.push(index) ?? children.set(parent, [index])));
  const depths = [];
  const order = [];
  const descend = (root) => {
    const stack = [[root, 0]];
    while (stack.length) {
      const [index, depth] = stack.pop();
      if (depths[index] !== undefined) continue;
      depths[index] = depth;
      order.push(index);
      for (const child of (children.get(index) ?? []).toReversed()) stack.push([child, depth + 1]);
    }
  };
  parents.forEach((parent, index) => parent < 0 && descend(index));
  parents.forEach((_, index) => descend(index)); // those whose parents form a circle
  return { ...spans, places, parents, children, depths, order, ...withSums(spans, parents, order), ...extent(spans) };
};

// What each span used by itself, and together with all that it consists of.
const withSums = ({ input_tokens: read, output_tokens: written, costs_usd: costs }, parents, order) => {
  const own = { tokens: read.map((count, index) => (count ?? 0) + (written[index] ?? 0)), costs: costs.map(Number) };
  const all = { tokens: [...own.tokens], costs: [...own.costs] };
  for (const index of order.toReversed()) {
    for (const name in all) if (parents[index] >= 0) all[name][parents[index]] += all[name][index];
  }
  return { own, all };
};

const extent = (spans) => {
  const ended = spans.ended_at ? (Date.parse(spans.ended_at) - Date.parse(spans.started_at)) * 1000 : 0;
  const from = spans.starts_us.reduce((least, us) => Math.min(least, us), 0);
  const to = spans.ids.reduce((most, _, index) => Math.max(most, endAt(spans, index)), Math.max(ended, from + 1));
  return { from, to, isOpen: !spans.ended_at && spans.durations_us.includes(null) };
};

/** Return the indexes of the spans to list: all by cost, or the tree; without what is folded or not in the range. */
export const listed = (spans, { folded, byCost, range, nowUs }) => {
  const isSeen = (index) => !range || (spans.starts_us[index] < range[1] && endAt(spans, index, nowUs) >= range[0]);
  if (byCost) {
    const { costs, tokens } = spans.own;
    const byUse = (a, b) => costs[b] - costs[a] || tokens[b] - tokens[a] || a - b;
    return [...spans.ids.keys()].filter(isSeen).sort(byUse);
  }
  let depth = Infinity; // of the folded span above
  return spans.order.filter((index) => {
    if (spans.depths[index] > depth) return false;
    depth = folded.has(shortId(spans.ids[index])) ? spans.depths[index] : Infinity;
    return isSeen(index);
  });
};

/** Return the first span with an error after a span in the order of the tree, which begins again at its end. */
export const nextFailure = ({ order, has_errors: errors }, index) => {
  const at = order.indexOf(index) + 1;
  return [...order.slice(at), ...order.slice(0, at)].find((one) => errors[one]);
};

/** Return the short ids of the spans that a span is a part of. */
export const ancestors = ({ ids, parents }, index) => {
  const found = new Set();
  for (let at = parents[index]; at >= 0 && !found.has(shortId(ids[at])); at = parents[at]) found.add(shortId(ids[at]));
  return found;
};
