// A run, or a trace of another program: what woke it, what it left, and the waterfall of its steps.
import { html, signal, useEffect, useMemo, useRef, useState } from "../../lib.js";
import { get, getPage } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { isFrozen, onEvents, useGet, useResource } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { costWords, Duration, formatDuration, Instant, money, now, plural, reasonWords } from "../../core/words.js";
import { actOn, Button, CopyButton, Failure, JsonView, Line, Loaded, Loading, Money, Page, Text, VirtualRows } from "../../ui/ui.js";
import { journalWords, Outcome, secondsOf } from "../agent/run_words.js";

// The spans of a trace: read page by page, ordered as a tree, and listed as the reader wants them.

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
  const names = spans.names.map((name, index) => (spans.span_types[index] === "tool" ? name.replace(/^execute_tool /, "") : name));
  return { ...spans, names, places, parents, children, depths, order, ...withSums(spans, parents, order), ...extent(spans) };
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

// The waterfall: a row for each span, with its bar on a time axis.

const narrow = matchMedia("(max-width: 760px)");
const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

/** Return a length of time in microseconds as text. */
export const length = (us) => (us < 10_000 && us % 1000 ? `${(us / 1000).toFixed(1)} ms` : formatDuration(us / 1e6));

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
/** Return a number of tokens as short text, such as 12.3K. */
export const short = (count) => compact.format(count);

const Row = ({ spans, index, view }) => {
  const { isTree, from, to, nowUs } = view;
  const id = spans.ids[index];
  const isParent = isTree && spans.children.has(index);
  const isFolded = view.folded.has(shortId(id));
  const { tokens, costs } = isTree ? spans.all : spans.own;
  const depth = isTree ? spans.depths[index] : 0;
  const us = spans.durations_us[index];
  const percent = (at) => ((Math.min(Math.max(at, from), to) - from) / (to - from)) * 100;
  const left = percent(spans.starts_us[index]);
  const bar = { left: `${left}%`, width: `${percent(endAt(spans, index, nowUs)) - left}%` };
  const state = `${spans.has_errors[index] ? "failed" : ""} ${us === null ? "open" : ""}`;
  const onClick = (event) => (isParent && event.target.closest(".run-fold") ? view.toggle(id) : view.select(id));
  return html`<div
    id="span-${id}"
    class="run-row"
    role="treeitem"
    aria-level=${depth + 1}
    aria-selected=${id === view.selected}
    aria-expanded=${isParent ? !isFolded : undefined}
    onClick=${onClick}
    onDblClick=${() => setQuery({ detail: "1" })}
  >
    <span class="run-name" style=${{ paddingLeft: `${Math.min(depth, 12) * 14}px` }}>
      <span class="run-fold" aria-hidden="true">${isParent && (isFolded ? "▸" : "▾")}</span>
      ${spans.has_errors[index] && html`<b class="run-mark" role="img" aria-label="failed">!</b>`}
      <${Line} value=${spans.names[index]} />
      <small><${Line} value=${spans.span_types[index]} /></small>
    </span>
    <span class="run-lane"><span class="run-bar ${state}" data-type=${spans.span_types[index]} style=${bar}></span></span>
    <span class="run-figure">${us === null ? "open" : length(us)}</span>
    <span class="run-figure run-use">${tokens[index] > 0 && short(tokens[index])}</span>
    <span class="run-figure run-use">${costs[index] > 0 && money(costs[index])}</span>
  </div>`;
};

const Axis = ({ from, to }) => html`<div class="run-row run-head" aria-hidden="true">
  <span>Step</span>
  <span class="run-lane">
    ${[0, 25, 50, 75].map((left) => html`<span style=${{ left: `${left}%` }}>${length(from + ((to - from) * left) / 100)}</span>`)}
  </span>
  <span class="run-figure">Duration</span><span class="run-figure run-use">Tokens</span><span class="run-figure run-use">Cost</span>
</div>`;

/** Show the listed spans. `view`: what is selected, folded and visible of the time; `keys`: what the keys do. */
export const Waterfall = ({ spans, view, keys }) => {
  const { rows, selected } = view;
  const height = isNarrow.value ? 46 : 28;
  const at = rows.indexOf(spans.places.get(selected));
  const onKeyDown = (event) => {
    const isMove = /^(Arrow|Home|End|Enter)/.test(event.key) && !(event.ctrlKey || event.metaKey || event.altKey);
    if (!isMove) return; // single keys can be switched off, but not those of a tree
    event.preventDefault();
    keys[event.key].run();
  };
  return html`<div class="run-waterfall">
    <${Axis} ...${view} />
    <${VirtualRows}
      class="virtual run-rows"
      style=${{ height: `${Math.min(Math.max(rows.length, 1) * height, innerHeight * 0.62)}px` }}
      count=${rows.length}
      height=${height}
      selected=${at}
      label="Steps"
      role="tree"
      aria-activedescendant=${at < 0 ? undefined : `span-${selected}`}
      onKeyDown=${onKeyDown}
      row=${(place) => html`<${Row} spans=${spans} index=${rows[place]} view=${view} />`}
    />
  </div>`;
};

// One step in full: read when it is opened, its conversation or tool call first.

const MAX_PARSED = 200_000; // characters of a text that may be JSON
const MESSAGES = ["gen_ai.input.messages", "gen_ai.output.messages"];
const SECTIONS = {
  "gen_ai.system_instructions": "System instructions",
  "gen_ai.tool.definitions": "Tools that it may call",
  "gen_ai.tool.call.arguments": "Arguments",
  "gen_ai.tool.call.result": "Result",
};
const MAX_MESSAGES = 200;
const FOLDED = 2; // of the sections

const isObject = (value) => value !== null && typeof value === "object";
const objects = (value) => (Array.isArray(value) ? value.filter(isObject) : []);

const parsed = (value) => {
  if (typeof value !== "string" || value.length > MAX_PARSED || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

const Value = ({ value }) => {
  const shown = parsed(value);
  return isObject(shown) ? html`<${JsonView} value=${shown} />` : html`<${Text} value=${shown} />`;
};

const Part = ({ part: { type, name, ...part } }) => html`
  ${type !== "text" && html`<small>${String(type ?? "").replaceAll("_", " ")} <${Line} value=${name} /></small>`}
  <${Value} value=${part.content ?? part.arguments ?? part.response ?? part.result ?? part} />
`;

const Message = ({ message }) => html`<li class=${message.role === "assistant" ? "run-model" : ""}>
  <b><${Line} value=${message.role} /></b>
  ${objects(message.parts).slice(0, MAX_MESSAGES).map((part) => html`<${Part} part=${part} />`)}
</li>`;

const Contents = ({ metadata }) => {
  if (!isObject(metadata) || Array.isArray(metadata)) return html`<h3>Metadata</h3><${Value} value=${metadata} />`;
  const messages = MESSAGES.flatMap((name) => objects(metadata[name]));
  const shown = messages.slice(-MAX_MESSAGES);
  const title = shown.length < messages.length ? `The last ${MAX_MESSAGES} of ${messages.length} messages` : "Conversation";
  const rest = Object.entries(metadata).filter(([name]) => !MESSAGES.includes(name) && !Object.hasOwn(SECTIONS, name));
  const sections = Object.entries(SECTIONS).map(
    ([name, title], index) =>
      name in metadata && html`<details open=${index >= FOLDED}><summary>${title}</summary><${Value} value=${metadata[name]} /></details>`,
  );
  return html`
    ${sections}
    ${messages.length > 0 && html`<h3>${title}</h3><ol>${shown.map((message) => html`<${Message} message=${message} />`)}</ol>`}
    <h3>Metadata</h3><${JsonView} value=${Object.fromEntries(rest)} />
  `;
};

const Full = ({ span, zone }) => html`
  <dl class="facts">
    <dt>Started</dt><dd><${Instant} at=${span.started_at} zone=${zone} style="full" /></dd>
    ${span.input_tokens !== null &&
    html`<dt>Tokens</dt><dd>${span.input_tokens} in, ${span.cached_tokens ?? 0} of them cached, ${span.output_tokens ?? 0} out</dd>`}
    ${span.cost_usd !== null && html`<dt>Cost</dt><dd><${Money} amount=${span.cost_usd} /></dd>`}
    <dt>Id</dt><dd><code>${span.id}</code> <${CopyButton} text=${span.id} /></dd>
  </dl>
  ${span.error && html`<div class="run-error"><h3>Error</h3><${Text} value=${span.error} /></div>`}
  <${Contents} metadata=${span.metadata} />
`;

/** Show a span with its metadata; one that was open is read again when it has ended. */
export const Detail = ({ spans, index, zone, close }) => {
  const id = spans.ids[index];
  const us = spans.durations_us[index];
  const span = useResource((signal) => get(`/api/tracing/spans/${id}/`, {}, signal), [id, us]);
  const keep = (event) => event.key.startsWith("Arrow") && event.stopPropagation();
  return html`<aside class="card run-detail" aria-label="Step" tabindex="0" onKeyDown=${keep}>
    <div class="split">
      <h2><${Line} value=${spans.names[index]} /></h2>
      <button class="quiet" aria-label="Close" onClick=${close}>✕</button>
    </div>
    <p class="muted"><${Line} value=${spans.span_types[index]} />, ${us === null ? "open" : length(us)}</p>
    <${Loaded} of=${span}>${(data) => html`<${Full} key=${id} span=${data} zone=${zone} />`}<//>
  </aside>`;
};

// What woke a run, what it left, what it cost and said.

const SHOWN = 10;
const SHOWN_CHARACTERS = 1500; // of what the model writes

const Titles = ({ titles, count }) => html`<ul class="run-titles">
  ${titles.map((title) => html`<li><${Line} value=${title || "(without a title)"} /></li>`)}
  ${count > titles.length && html`<li class="muted">and ${plural(count - titles.length, "more", "more")}</li>`}
</ul>`;

// The titles are in the journal, or while the run goes on in the queue.
const useWokenBy = ({ agent, journal, notifications }) => {
  const isNeeded = !journal && notifications.length > 0;
  const queue = useResource(
    async (signal) => (isNeeded ? get("/api/defaults/notifications/", { agent, limit: 200 }, signal) : []),
    [agent, isNeeded],
  );
  const found = (id) => (queue.data ?? []).filter((one) => one.id === id).map((one) => one.title);
  return journal?.woken_by ?? notifications.slice(0, SHOWN).flatMap(found);
};

const Woken = ({ run, zone }) => html`<section>
  <h2>What woke it</h2>
  <p>${reasonWords(run.wake_reason)}, <${Instant} at=${run.started_at} zone=${zone} style="full" /></p>
  <${Titles} titles=${useWokenBy(run)} count=${run.notification_count} />
  ${run.interrupted_sleep_until &&
  html`<p class="muted">It cut short a sleep until <${Instant} at=${run.interrupted_sleep_until} zone=${zone} style="full" />.</p>`}
</section>`;

const leftWords = ({ ended_at: endedAt, journal }) => {
  if (!endedAt) return "It is still running.";
  return journal?.uncleared ? (journal.uncleared_count ? "" : "Nothing.") : "This was not recorded.";
};

const Left = ({ run }) => html`<section>
  <h2>What it left uncleared</h2>
  <p>${leftWords(run)}</p>
  <${Titles} titles=${(run.journal?.uncleared ?? []).map((one) => one.title)} count=${run.journal?.uncleared_count} />
  ${run.journal?.uncleared_count > 0 && html`<a href="/console/agents/${run.agent}/queue">Go to the queue</a>`}
</section>`;

const Figures = ({ run, spans }) => {
  const sum = (name) => (spans?.[name] ?? []).reduce((total, count) => total + (count ?? 0), 0);
  const figures = {
    Duration: html`<${Duration} seconds=${Math.max(0, secondsOf(run, run.ended_at ? 0 : now.value))} />`,
    Turns: run.turns,
    "Tokens in": short(sum("input_tokens")),
    cached: short(sum("cached_tokens")),
    out: short(sum("output_tokens")),
    Cost: costWords(run.journal?.cost_usd ?? sum("costs_usd"), run.journal?.unpriced_calls),
  };
  return html`<dl class="run-figures">
    ${Object.entries(figures).map(([name, figure]) => html`<div><dt>${name}</dt><dd>${figure}</dd></div>`)}
  </dl>`;
};

const LiveText = ({ run }) => {
  const [answer, setAnswer] = useState({ text: "" });
  const add = ({ turn, offset, text }) =>
    setAnswer((old) => ({ turn, text: (old.turn === turn ? old.text : "").slice(0, offset) + text }));
  useEffect(() => onEvents(["model.delta"], (event) => event?.run === run && add(event.data)), [run]);
  return answer.text && html`<${Titled} title="Turn ${answer.turn}: the model writes" text=${answer.text.slice(-SHOWN_CHARACTERS)} />`;
};

const Titled = ({ title, text, kind }) => text && html`<section class=${kind}><h2>${title}</h2><${Text} value=${text} /></section>`;

const failedTools = ({ journal }) =>
  (journal?.tools ?? []).filter((tool) => tool.errors).map((tool) => `${tool.name} failed ${plural(tool.errors, "time")}: ${tool.last_error}`);

const NOT_ANSWERED = "It cleared messages of contacts that got no answer.";

const isUnsent = ({ journal, wake_reason: reason }) =>
  journal && /^notification:(email|sms|mms)/.test(reason) && !journal.sent_count && !journal.failed_count;

/** Show what the service knows of a run. */
export const Summary = ({ run, spans, zone, reload }) => html`<div class="card run-summary">
  <div class="run-why"><${Woken} run=${run} zone=${zone} /><${Left} run=${run} /></div>
  ${run.needs_person && html`<div class="stale split"><span>${run.journal?.unanswered?.length ? NOT_ANSWERED : "Something failed in this run, and nothing was done about it afterwards."}</span> <${Button} run=${async () => (await actOn("dismiss", "failed_run", [run.id]), reload())}>Dismiss<//></div>`}
  <${Titled} title="Error" text=${run.error} kind="run-error" />
  <${Titled} title="Reason of the stop" text=${run.stop_reason} />
  <${Figures} run=${run} spans=${spans} />
  ${!run.ended_at && html`<${LiveText} run=${run.id} />`}
  <${Titled} title="What it did" text=${[journalWords({ ...run, output: "" }), ...failedTools(run)].join("\n").trim()} />
  ${run.output && html`<section><h2>Final output</h2>${isUnsent(run) && html`<p class="muted">The model wrote a text and sent no message.</p>`}<${Value} value=${run.output} /></section>`}
</div>`;

const SETTLE_MS = 200; // before a moving selection is written into the address: browsers limit how often
const RELOAD_MS = 1000; // while it goes on; at least ten times as long as reading takes
const READS_AFTER_END = 3; // a run stores its last steps just after its end

/** Read the spans of a trace, again and again while it goes on: `{spans, error}`. */
const useSpans = (id, isOpen) => {
  const [state, setState] = useState({});
  useEffect(() => {
    const own = new AbortController();
    let timer;
    let left = isOpen ? Infinity : state.id === id ? READS_AFTER_END : 1;
    const read = async (isFirst) => {
      const began = performance.now();
      const show = (spans) => (isFirst || spans.isComplete) && setState({ id, spans });
      try {
        if (isFirst || !(document.hidden || isFrozen.peek())) {
          await readSpans(id, own.signal, show);
          left -= 1;
        }
      } catch (error) {
        if (!own.signal.aborted) setState((old) => ({ ...old, error }));
        if (error.status !== 0 && error.status !== 503) left = 0;
      }
      const wait = Math.max(RELOAD_MS, (performance.now() - began) * 10);
      if (left > 0 && !own.signal.aborted) timer = setTimeout(read, wait);
    };
    read(state.id !== id);
    return () => {
      own.abort();
      clearTimeout(timer);
    };
  }, [id, isOpen]);
  return state.id === id || state.error ? state : {};
};

/** Return the selected span and what selects another; the address follows when the selection rests. */
const useSelection = () => {
  const written = query.value.span;
  const [selected, setSelected] = useState(written);
  const timer = useRef();
  const own = useRef(written); // what came from here: the selection may have moved on since
  useEffect(() => {
    if (written !== own.current) setSelected(written);
    own.current = written;
  }, [written]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const select = (id) => {
    setSelected(id);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      own.current = id;
      setQuery({ span: id }, { replace: true });
    }, SETTLE_MS);
  };
  return [selected, select];
};

const useNowUs = (spans) => {
  const last = useRef(0);
  if (!spans?.isOpen) return spans?.to;
  if (!isFrozen.value || !last.current) last.current = now.value;
  return Math.max(spans.to, (last.current - Date.parse(spans.started_at)) * 1000);
};

const useView = (spans) => {
  const { fold, sort, zoom, detail } = query.value;
  const [selected, select] = useSelection();
  const nowUs = useNowUs(spans);
  const chosen = useMemo(() => {
    const range = zoom?.split("_").map(Number);
    return { folded: new Set(fold?.split(".")), byCost: sort === "cost", range: range?.[1] > range?.[0] ? range : null };
  }, [fold, sort, zoom]);
  const rows = useMemo(() => (spans ? listed(spans, { ...chosen, nowUs }) : []), [spans, chosen]);
  const [from, to] = chosen.range ?? [spans?.from, nowUs];
  const toggle = (id) => setFolded(chosen.folded.symmetricDifference(new Set([shortId(id)])));
  return { ...chosen, isTree: !chosen.byCost, selected, select, toggle, nowUs, rows, from, to, isDetailed: Boolean(detail) };
};

const setFolded = (ids) => setQuery({ fold: [...ids].join(".") }, { replace: true });

/** Return what the keys do, by key. */
const keysOf = (spans, { rows, folded, selected, select, toggle, isTree, byCost, range, nowUs, isDetailed }) => {
  const at = spans.places.get(selected) ?? -1;
  const place = rows.indexOf(at);
  const go = (next) => rows.length && select(spans.ids[rows[Math.min(Math.max(next, 0), rows.length - 1)]]);
  const isParent = isTree && spans.children.has(at);
  const isFolded = isParent && folded.has(shortId(selected));
  const goOut = () => {
    if (isParent && !isFolded) toggle(selected);
    else if (isTree && spans.parents[at] >= 0) select(spans.ids[spans.parents[at]]);
  };
  const goToFailure = () => {
    const found = nextFailure(spans, at);
    if (found === undefined) return;
    setFolded(folded.difference(ancestors(spans, found)));
    select(spans.ids[found]);
  };
  const zoom = () => {
    const start = spans.starts_us[at];
    setQuery({ zoom: range || at < 0 ? null : `${start}_${Math.max(endAt(spans, at, nowUs), start + 1)}` });
  };
  const next = { help: "Next step", run: () => go(place + 1) };
  const previous = { help: "Previous step", run: () => go(place - 1) };
  return {
    ArrowDown: next,
    ArrowUp: previous,
    j: next,
    k: previous,
    Home: { help: "First step", run: () => go(0) },
    End: { help: "Last step", run: () => go(rows.length - 1) },
    ArrowRight: { help: "Unfold the step, or go into it", run: () => isParent && (isFolded ? toggle(selected) : go(place + 1)) },
    ArrowLeft: { help: "Fold the step, or go out of it", run: goOut },
    Enter: { help: "Open the step", run: () => setQuery({ detail: isDetailed || at < 0 ? null : "1" }) },
    Escape: { help: "Close the step", run: () => setQuery({ detail: null }) },
    f: { help: "Next failure", run: goToFailure },
    $: { help: "Sort by cost, or by time", run: () => setQuery({ sort: byCost ? null : "cost" }, { replace: true }) },
    z: { help: "Zoom into the step, or out", run: zoom },
  };
};

const countWords = ({ ids, total_spans: total, isComplete }, rows) => {
  const [read, all, seen] = [ids, { length: total }, rows].map((list) => list.length.toLocaleString("en"));
  return (isComplete ? plural(ids.length, "step") : `${read} of ${all} steps`) + (seen === read ? "" : `, ${seen} listed`);
};

const Tools = ({ spans, view, keys }) => {
  const failures = useMemo(() => spans.has_errors.filter(Boolean).length, [spans]);
  const { range, selected } = view;
  const button = (key, label, isPressed, isUsable = true) => html`<button
    aria-pressed=${isPressed}
    disabled=${!isUsable}
    onClick=${keys[key].run}
  >${label} <kbd>${key}</kbd></button>`;
  return html`<div class="filters run-tools">
    <h2>Steps</h2>
    <span class="muted" role="status">${countWords(spans, view.rows)}</span>
    ${button("f", plural(failures, "failure"), undefined, failures)}
    ${button("$", "By cost", view.byCost)}
    ${button("z", range ? `Zoomed to ${length(range[1] - range[0])}` : "Zoom", range !== null, range || selected)}
    ${button("Enter", "Open", view.isDetailed, selected)}
  </div>`;
};

const Steps = ({ spans, zone }) => {
  const view = useView(spans);
  const keys = keysOf(spans, view);
  useKeys(keys);
  const at = spans.places.get(query.value.span);
  const isOpen = view.isDetailed && at !== undefined;
  return html`<${Tools} spans=${spans} view=${view} keys=${keys} />
    <div class=${isOpen ? "run-with-detail" : ""}>
      ${spans.ids.length
        ? html`<${Waterfall} spans=${spans} view=${view} keys=${keys} />`
        : html`<p class="muted">No step is recorded yet.</p>`}
      ${isOpen && html`<${Detail} spans=${spans} index=${at} zone=${zone} close=${keys.Escape.run} />`}
    </div>`;
};

const Trace = ({ read: { spans, error }, zone, children }) =>
  html`${children}
    ${error && html`<${Failure} error=${error} />`}
    ${spans ? html`<${Steps} spans=${spans} zone=${zone} />` : html`<${Loading} />`}`;

const Told = ({ prompt }) =>
  prompt &&
  html`, told <a href="/console/${prompt.of}s/${prompt.id}/prompts?version=${prompt.version}">version ${prompt.version} of ${prompt.of === "agent" ? "its own prompt" : "the prompt of its template"}</a>`;

const OfRun = ({ id, run }) => {
  const path = `/api/cloud/agents/${id}/`;
  const read = (signal) => Promise.all([get(`${path}runs/${run}/`, {}, signal), get(path, {}, signal)]);
  const found = useResource(read, [id, run], { events: ["run.*", "agent.changed"], agent: id });
  const spans = useSpans(run, found.data?.[0].ended_at === null);
  const show = ([one, { name, timezone }]) => {
    const heading = html`Run of <${Instant} at=${one.started_at} zone=${timezone} style="full" />`;
    return html`<${Page} title="Run of ${name}" heading=${heading} actions=${html`<${Outcome} of=${one} />`}>
      <p class="run-about">Agent <a href="/console/agents/${id}"><${Line} value=${name} /></a><${Told} prompt=${one.prompt} /></p>
      <${Trace} read=${spans} zone=${timezone}><${Summary} run=${one} spans=${spans.spans} zone=${timezone} reload=${found.reload} /><//>
    <//>`;
  };
  return html`<${Loaded} of=${found}>${show}<//>`;
};

const OfTrace = ({ run }) => {
  const found = useGet(`/api/tracing/traces/${run}/`, { limit: 1 }, { every: 5 });
  const spans = useSpans(run, found.data?.ended_at === null);
  useKeys({ u: { help: "Go to the agent", run: () => found.data && navigate(`/console/agents/${found.data.agent}`) } });
  const about = (trace) => html`<p class="run-about">
      Written for <a href="/console/agents/${trace.agent}">its agent</a>, started ${" "}<${Instant} at=${trace.started_at} style="full" />
    </p>
    ${trace.error && html`<div class="card run-error"><${Text} value=${trace.error} /></div>`}`;
  const show = (trace) => html`<${Page} title=${trace.name} actions=${html`<${Outcome} of=${trace} />`}>
    <${Trace} read=${spans}>${about(trace)}<//>
  <//>`;
  return html`<${Loaded} of=${found}>${show}<//>`;
};

/** Show a run of an agent, or a trace by its id alone. */
export default (values) => html`<${values.id ? OfRun : OfTrace} ...${values} />`;
