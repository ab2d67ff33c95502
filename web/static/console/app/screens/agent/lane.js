// The day lane: what the agent did, day by day, and what lies ahead of it.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../../lib.js";
import { flatten, get } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useResource } from "../../core/resource.js";
import { dayAfter } from "../../core/time.js";
import { PHASES } from "../../core/words.js";
import { Loading } from "../../ui/ui.js";
import { columnAt, hourLabels, instantAt } from "./lane_days.js";
import { LaneDay, Patterns, Swatch } from "./lane_day.js";
import { LaneDetail } from "./lane_detail.js";
import { continued, findItem, instant, itemsOf, readTimeline, waits } from "./lane_items.js";
import { LaneTable } from "./lane_table.js";
import { DAY_COUNTS, selectItem, showColumns, showDays, useLaneView } from "./lane_view.js";
import { sentenceOf, spanWords, wordOf } from "./lane_words.js";

const room = (rows, pitch, band) => {
  const top = rows * pitch + 3;
  return { rows, pitch, top, band, height: top + band + 10 };
};
const ROOMS = { 1: room(4, 5, 34), 3: room(3, 4, 24), 7: room(2, 4, 16), 31: room(1, 4, 11) };
const LABEL_WIDTH = 70; // pixels
const EVENTS = ["agent.*", "run.*", "notification.*", "message.*", "budget.*", "organization.*"];

const NOTHING = { bands: [], marks: [], waiting: [], ahead: [] }; // while a period is read

const iso = (at) => new Date(Math.round(at)).toISOString();

/** Read a period, and then only what is new: from some bands before the last one on. */
const useTimeline = (id, start, end, isWanted) => {
  const known = useRef(null);
  const key = isWanted ? `${id} ${start} ${end}` : null;
  const isOpen = end > Date.now();
  const load = async (signal) => {
    if (!key) return null;
    const old = known.current?.key === key ? known.current.timeline : null;
    const from = old?.bands.at(-3)?.start ?? iso(start);
    const fresh = readTimeline(await get(`/api/cloud/agents/${id}/timeline/`, { start: from, end: iso(end) }, signal));
    const timeline = old ? continued(old, fresh) : fresh;
    known.current = { key, timeline };
    return timeline;
  };
  return useResource(load, [key], key && isOpen ? { events: EVENTS, agent: id, every: 60 } : {});
};

/** Return the reference of an element and its width in pixels. */
const useWidth = () => {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
};

/** Return what the keys do: the ones of HELP in the whole page, the others in the lane. */
const keysOf = (shown, { from, end }, items, index, open) => {
  const { view, own, lanes, laneOf } = shown;
  const middle = (shown.at && items[index]?.at) || Date.now();
  const center = columnAt(laneOf(middle), middle);
  const select = (one) => {
    selectItem(one);
    const column = columnAt(laneOf(one.at), one.at);
    if (column < view.from || column > view.to) showColumns(shown, column, view.to - view.from);
  };
  const days = (by, at) => {
    const last = dayAfter(shown.day, by * shown.count);
    if (by < 0 || shown.day < shown.today) showDays({ ...shown, day: last < shown.today ? last : shown.today }, at);
  };
  const goTo = (at) => {
    selectItem({ kind: "band", start: iso(at) });
    showColumns(shown, columnAt(own, at), view.to - view.from);
  };
  const step = (by) => {
    const next = items[index + by];
    const edge = by < 0 ? from - 1 : instant(end);
    if (next) select(next);
    else if (edge > lanes[0].start && edge < own.end) goTo(edge);
    else days(by, edge);
  };
  const zoom = (factor) => () => showColumns(shown, center, (view.to - view.from) * factor);
  return {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    "+": zoom(1 / 3),
    "-": zoom(3),
    0: zoom(1e9),
    "[": () => days(-1),
    "]": () => days(1),
    t: () => showDays({ ...shown, day: shown.today }),
    Home: () => items[0] && select(items[0]),
    End: () => items.length && select(items.at(-1)),
    Enter: open,
  };
};

const HELP = {
  ArrowLeft: "Event before",
  ArrowRight: "Event after",
  "+": "Zoom in",
  "-": "Zoom out",
  0: "Show the whole day",
  "[": "Earlier days",
  "]": "Later days",
  t: "Today",
};

/** Bind the keys of the lane for the whole page; `keys.current` says what they do at present. */
const useLaneKeys = (keys) => {
  const press = (key) => () => {
    keys.current[key]?.();
    document.querySelector(".lane-list")?.focus({ preventScroll: true });
  };
  useKeys(Object.fromEntries(Object.entries(HELP).map(([key, help]) => [key, { help, run: press(key) }])));
};

const dayName = (day, length) => {
  const options = length > 1 ? { weekday: "short", day: "numeric", month: "short" } : { weekday: "long", day: "numeric", month: "long" };
  return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }).format(new Date(day));
};

const Toolbar = ({ shown, keys }) => {
  const { day, count, today, isZoomed, zone } = shown;
  const choose = (event) => showDays({ ...shown, count: Number(event.target.value) });
  return html`<div class="lane-tools">
    <h2 class="lane-title">${count > 1 && `${count} days until `}${dayName(day, 1)} <small>${zone}</small></h2>
    <button onClick=${keys["["]} aria-label="Earlier">‹</button>
    <input type="date" aria-label="Day" value=${day} max=${today} onChange=${(event) => event.target.value && showDays({ ...shown, day: event.target.value })} />
    <button onClick=${keys["]"]} disabled=${day >= today} aria-label="Later">›</button>
    <button onClick=${() => showDays({ ...shown, day: dayAfter(today, -1), count: 1 })}>Yesterday</button>
    <button onClick=${keys.t}>Today</button>
    <select aria-label="How many days" onChange=${choose}>
      ${DAY_COUNTS.map((one) => html`<option value=${one} selected=${one === count}>${one === 1 ? "1 day" : `${one} days`}</option>`)}
    </select>
    <span class="lane-zoom">
      <button onClick=${keys["-"]} disabled=${!isZoomed} aria-label="Zoom out">−</button>
      <button onClick=${keys["+"]} aria-label="Zoom in">+</button>
    </span>
  </div>`;
};

const Hours = ({ shown, width }) => {
  const { own, view, zone, isAligned } = shown;
  const labels = hourLabels(own, view, zone, isAligned, Math.max(2, Math.floor(width / LABEL_WIDTH)));
  const place = (column) => ((column - view.from) / (view.to - view.from)) * width;
  return html`<svg class="lane-svg" width=${width} height="16">
    ${labels.map(({ column, text }) => {
      const x = Math.min(Math.max(place(column), 14), width - 16);
      return html`<text class="lane-hour" x=${x} y="11">${text}</text>`;
    })}
  </svg>`;
};

const Lanes = ({ shown, timeline, items, selected, width }) => {
  const waiting = useMemo(() => waits(timeline), [timeline]);
  const size = ROOMS[shown.count];
  return html`<div aria-hidden="true">
    <div class="lane-row"><span></span><${Hours} shown=${shown} width=${width} /></div>
    ${shown.lanes.map(
      (lane) => html`<div class="lane-row" key=${lane.day}>
        <span class="lane-day">${shown.isAligned && dayName(lane.day, 2)}${lane.hours !== 24 && html` <small>${lane.hours} h</small>`}</span>
        <${LaneDay}
          ...${{ timeline, waiting, items, lane, width, size, selected }}
          view=${shown.view}
          zone=${shown.zone}
          select=${selectItem}
          isLive=${lane.end > Date.now()}
        />
      </div>`,
    )}
  </div>`;
};

const Legend = ({ timeline }) => {
  const phases = useMemo(() => {
    const found = new Set();
    for (const { phase } of timeline.bands) found.add(phase);
    return [...found];
  }, [timeline]);
  return html`<p class="lane-legend">
    ${phases.map((phase) => html`<span><${Swatch} phase=${phase} />${PHASES[phase] ?? phase}</span>`)}
    ${timeline.marks_left_out > 0 && html`<span>${timeline.marks_left_out.toLocaleString("en")} earlier marks are left out.</span>`}
  </p>`;
};

const Description = ({ one, zone }) => html`${wordOf(one)}, ${spanWords(one, zone, Date.now())}.
  <bdi>${one.title}</bdi> <bdi>${sentenceOf(one, zone)}</bdi>`;

/** Return the reference of a box that scrolls to the selected item where it is narrower than the lane. */
const useScroll = (shown, selected, width) => {
  const frame = useRef(null);
  useLayoutEffect(() => {
    const { scrollWidth, clientWidth } = frame.current;
    if (!selected || scrollWidth <= clientWidth) return;
    const { from, to } = shown.view;
    const column = columnAt(shown.laneOf(selected.at), selected.at);
    frame.current.scrollLeft = ((column - from) / (to - from)) * scrollWidth - clientWidth / 2;
  }, [width, selected?.start, shown.view.from, shown.view.to]);
  return frame;
};

const LaneOf = ({ agent, shown, timeline, isLoading, keys }) => {
  const [box, width] = useWidth();
  const items = useMemo(() => itemsOf(timeline), [timeline]);
  const index = findItem(items, shown.at ?? Date.now(), shown.item);
  const selected = items[index] ?? null;
  const open = () => document.querySelector(".lane-detail a")?.click();
  const frame = useScroll(shown, selected, width);
  keys.current = keysOf(shown, timeline, items, index, open);
  const onKeyDown = (event) => {
    const run = keys.current[event.key];
    if (!run || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    run();
  };
  return html`<${Toolbar} shown=${shown} keys=${keys.current} />
    <div class="lane-box" ref=${frame}>
      <div
        class=${`lane-list ${shown.isAligned ? "lane-stack" : ""}`}
        role="listbox"
        tabindex="0"
        aria-label="What happened, in the order of time; the arrow keys go from event to event"
        aria-activedescendant=${selected ? "lane-item" : undefined}
        onKeyDown=${onKeyDown}
      >
        <div class="lane-measure"><span></span><div ref=${box}></div></div>
        ${selected &&
        html`<div id="lane-item" class="hidden" role="option" aria-selected="true" aria-posinset=${index + 1} aria-setsize=${items.length}>
          <${Description} one=${selected} zone=${agent.timezone} />
        </div>`}
        ${width > 0 && html`<${Lanes} ...${{ shown, timeline, items, selected, width }} />`}
      </div>
    </div>
    ${selected
      ? html`<${LaneDetail} agent=${agent} one=${selected} isPresent=${!shown.at && selected.isOpen} />`
      : html`<div class="lane-detail">${isLoading ? html`<${Loading} />` : timeline !== NOTHING && "Nothing happened yet."}</div>`}
    <${Legend} timeline=${timeline} />
    <${LaneTable} agent=${agent} items=${items} index=${index} />`;
};

/** Show why a period cannot be read; if more happened in it than an answer holds, offer a shorter one. */
const Unread = ({ error, shown }) => {
  const { view, own, count, at } = shown;
  const shorten = () =>
    count > 1 ? showDays({ ...shown, count: 1 }) : showColumns(shown, columnAt(own, at ?? Date.now()), (view.to - view.from) / 4);
  return html`<p class="stale" role="alert">
    ${error.fields?.end ? flatten(error.fields.end) : error.sentence}
    ${error.fields?.end && html` <button onClick=${shorten}>${count > 1 ? "Show one day" : "Show a shorter time"}</button>`}
  </p>`;
};

/** Show the day lane of an agent. */
export const Lane = ({ agent }) => {
  const shown = useLaneView(agent);
  const { lanes, own, view, isZoomed, count } = shown;
  const whole = useTimeline(agent.id, lanes[0].start, own.end, true);
  const isPart = count === 1 && isZoomed && Boolean(whole.error?.fields?.end);
  const limits = [instantAt(own, view.from), instantAt(own, view.to)].map(Math.round);
  const part = useTimeline(agent.id, ...limits, isPart);
  const { data, error } = isPart ? part : whole;
  const keys = useRef({});
  useLaneKeys(keys);
  return html`<section class="card lane" aria-label="Day lane">
    <${Patterns} />
    ${error && html`<${Unread} error=${error} shown=${shown} />`}
    <${LaneOf} agent=${agent} shown=${shown} timeline=${data ?? NOTHING} isLoading=${!data && !error} keys=${keys} />
  </section>`;
};
