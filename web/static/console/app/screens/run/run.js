// A run, or a trace of another program: what woke it, what it left, and the waterfall of its steps.
import { html, useEffect, useMemo, useRef, useState } from "../../lib.js";
import { get } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { isFrozen } from "../../core/live.js";
import { useGet, useResource } from "../../core/resource.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { now } from "../../core/time.js";
import { plural } from "../../core/words.js";
import { Failure, Instant, Line, Loaded, Loading, Page, Text } from "../../ui/ui.js";
import { Outcome } from "../agent/run_words.js";
import { Detail } from "./detail.js";
import { ancestors, endAt, listed, nextFailure, readSpans, shortId } from "./spans.js";
import { Summary } from "./summary.js";
import { length, Waterfall } from "./waterfall.js";

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

const OfRun = ({ id, run }) => {
  const path = `/api/cloud/agents/${id}/`;
  const read = (signal) => Promise.all([get(`${path}runs/${run}/`, {}, signal), get(path, {}, signal)]);
  const found = useResource(read, [id, run], { events: ["run.*", "agent.changed"], agent: id });
  const spans = useSpans(run, found.data?.[0].ended_at === null);
  const show = ([one, { name, timezone }]) => {
    const heading = html`Run of <${Instant} at=${one.started_at} zone=${timezone} style="full" />`;
    return html`<${Page} title="Run of ${name}" heading=${heading} actions=${html`<${Outcome} of=${one} />`}>
      <p class="run-about">Agent <a href="/console/agents/${id}"><${Line} value=${name} /></a></p>
      <${Trace} read=${spans} zone=${timezone}><${Summary} run=${one} spans=${spans.spans} zone=${timezone} /><//>
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
