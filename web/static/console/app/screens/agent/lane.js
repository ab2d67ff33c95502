// The day lane: what the agent did, day by day, and what lies ahead of it.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib.js";
import { flatten, get } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useGet, useResource } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { dayAfter, formatDuration, Instant, now, PHASES, zoneName } from "../../core/words.js";
import { DateField, Line, Loading, PhaseBadge, Table, Text } from "../../ui/ui.js";
import { actorWord, columnAt, continued, dayLane, dayOf, findItem, hourLabels, instant, instantAt, itemsOf, LaneDay, Patterns, readTimeline, sentenceOf, spanWords, Swatch, waits, wordOf } from "./lane_day.js";
import { outcomeWords } from "./run_words.js";

// What the address says of the day lane: the days, the zoom, and the item that is selected.

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

// The item that is selected in the day lane: its sentence, its limits, its run, and the explanation as of then.

const SETTLE_MS = 150; // while arrow keys are held down, nothing is read

/** Return a value once it has not changed for a moment. */
const useSettled = (value) => {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(setSettled, SETTLE_MS, value);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
};

const Run = ({ agent, id }) => {
  const wanted = useSettled(id);
  const { data } = useGet(`/api/cloud/agents/${agent.id}/runs/${wanted}/`, {}, {
    events: ["run.*"],
    agent: agent.id,
  });
  return html`<p>
    <a href="/console/agents/${agent.id}/runs/${id}">Open its run</a>
    ${data?.id === id && html` · ${outcomeWords(data)}`}
  </p>`;
};

const AsOf = ({ agent, one }) => {
  const wanted = useSettled(one.start);
  const path = `/api/cloud/agents/${agent.id}/supervisor/`;
  const { data } = useGet(path, { at: wanted });
  if (!data || wanted !== one.start) return html`<p class="muted">…</p>`;
  if (!data.next_wake_at && one.phase !== "asleep") return null;
  const began = data.since && Date.parse(data.since) < Math.floor(one.at) && data.phase === one.phase;
  return html`<p class="muted">
    As of <${Instant} at=${data.at} zone=${agent.timezone} />:
    ${began && html` ${wordOf(one)} since <${Instant} at=${data.since} zone=${agent.timezone} />;`}
    ${data.next_wake_at
      ? html` it was to wake at <${Instant} at=${data.next_wake_at} zone=${agent.timezone} />.`
      : one.phase === "asleep" && " nothing was to wake it by itself."}
  </p>`;
};

const More = ({ agent, one }) => {
  if (one.kind === "band") return ["unknown", "not_yet"].includes(one.phase) ? null : html`<${AsOf} agent=${agent} one=${one} />`;
  if (one.kind === "ahead") return html`<p class="muted">In ${formatDuration(Math.max(0, Math.round((one.at - now.value) / 1000)))}, as decided at present.</p>`;
  const cleared = one.cleared && one.cleared_by ? ` · cleared by ${actorWord(one.cleared_by)}` : "";
  const by = one.by ? `by ${actorWord(one.by)}` : "";
  return html`<p class="muted">${by}${cleared}${one.priority ? ` · ${one.priority} priority` : ""}</p>`;
};

/** Show the item that is selected. The present is explained by the head of the page. */
export const LaneDetail = ({ agent, one, isPresent }) => {
  const sentence = sentenceOf(one, agent.timezone);
  return html`<div class="lane-detail">
    <p class="lane-head">
      ${one.kind === "band" ? html`<${PhaseBadge} phase=${one.phase} />` : html`<b>${wordOf(one)}</b>`}
      <span class="number">${spanWords(one, agent.timezone, now.value)}</span>
    </p>
    ${one.title && html`<p><${Line} value=${one.title} /></p>`}
    ${sentence && !isPresent && html`<div class="lane-sentence"><${Text} value=${sentence} /></div>`}
    ${one.run && html`<${Run} agent=${agent} id=${one.run} />`}
    ${!isPresent && html`<${More} agent=${agent} one=${one} />`}
  </div>`;
};

// The list twin of the day lane: the same items as a table.

const ROWS = 50;

const lengthOf = (one) => {
  if (one.kind === "band") return formatDuration((one.until - one.at) / 1000);
  return one.cleared ? formatDuration((one.cleared - one.at) / 1000) : "";
};

const columnsFor = ({ id, timezone }) => [
  { title: "From", cell: (one) => html`<${Instant} at=${one.start} zone=${timezone} style="full" />` },
  { title: "What", cell: wordOf },
  { title: "Lasted", number: true, cell: lengthOf },
  {
    title: "Why",
    cell: (one) => html`${one.title && html`<${Line} value=${one.title} /> `}<${Text} value=${sentenceOf(one, timezone)} />`,
  },
  { title: "Run", cell: (one) => one.run && html`<a href="/console/agents/${id}/runs/${one.run}">run</a>` },
];

const Rows = ({ agent, items, index }) => {
  const [first, setFirst] = useState(Math.max(0, index - (index % ROWS)));
  const start = Math.min(first, Math.max(0, items.length - 1));
  const rows = items.slice(start, start + ROWS).map((one, number) => ({ ...one, number: start + number }));
  return html`<p class="split">
      <span>${start + 1}–${start + rows.length} of ${items.length.toLocaleString("en")}</span>
      <span class="actions">
        <button disabled=${start === 0} onClick=${() => setFirst(Math.max(0, start - ROWS))}>Earlier</button>
        <button disabled=${start + ROWS >= items.length} onClick=${() => setFirst(start + ROWS)}>Later</button>
      </span>
    </p>
    <${Table} label="What happened" columns=${columnsFor(agent)} rows=${rows} id=${(one) => one.number} selected=${index} />`;
};

/** Show the items as a table, 50 at a time. */
export const LaneTable = ({ agent, items, index }) => {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="lane-table" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>As a table</summary>
    ${isOpen && html`<${Rows} agent=${agent} items=${items} index=${index} />`}
  </details>`;
};

const room = (rows, pitch, band) => {
  const top = rows * pitch + 3;
  return { rows, pitch, top, band, height: top + band + 10 };
};
const ROOMS = { 1: room(4, 5, 34), 3: room(3, 4, 24), 7: room(2, 4, 16), 31: room(1, 4, 11) };
const LABEL_WIDTH = 70; // pixels
const EVENTS = ["agent.*", "run.*", "notification.*", "message.*", "budget.*", "organization.*"];

const NOTHING = { bands: [], marks: [], waiting: [], ahead: [] }; // while a period is read


/** Read a period, and then only what is new: from some bands before the last one on. */
const useTimeline = ({ id, created_at: createdAt }, start, end, isWanted) => {
  const known = useRef(null);
  const key = isWanted ? `${id} ${start} ${end}` : null;
  const isOpen = end > Date.now();
  const load = async (signal) => {
    if (!key) return null;
    const old = known.current?.key === key ? known.current.timeline : null;
    const from = old?.bands.at(-3)?.start ?? iso(start);
    const fresh = readTimeline(await get(`/api/cloud/agents/${id}/timeline/`, { start: from, end: iso(end) }, signal), createdAt);
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
    else if (edge) days(by, edge); // NaN while the day is read
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
  const options = { weekday: length > 1 ? "short" : "long", timeZone: "UTC" };
  return `${new Intl.DateTimeFormat("en-GB", options).format(new Date(day))} ${day}`;
};

const Toolbar = ({ shown, keys }) => {
  const { day, count, today, isZoomed, zone } = shown;
  const choose = (event) => showDays({ ...shown, count: Number(event.target.value) });
  return html`<div class="lane-tools">
    <h2 class="lane-title">${count > 1 && `${count} days until `}${dayName(day, 1)} <small>${zone}</small></h2>
    <button onClick=${keys["["]} aria-label="Earlier">‹</button>
    <${DateField} aria-label="Day" value=${day} change=${(chosen) => chosen && chosen <= today && showDays({ ...shown, day: chosen })} />
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
  const whole = useTimeline(agent, lanes[0].start, own.end, true);
  const isPart = count === 1 && isZoomed && Boolean(whole.error?.fields?.end);
  const limits = [instantAt(own, view.from), instantAt(own, view.to)].map(Math.round);
  const part = useTimeline(agent, ...limits, isPart);
  const { data, error } = isPart ? part : whole;
  const keys = useRef({});
  useLaneKeys(keys);
  return html`<section class="card lane" aria-label="Day lane">
    <${Patterns} />
    ${error && html`<${Unread} error=${error} shown=${shown} />`}
    <${LaneOf} agent=${agent} shown=${shown} timeline=${data ?? NOTHING} isLoading=${!data && !error} keys=${keys} />
  </section>`;
};
