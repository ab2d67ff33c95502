// The waterfall: a row for each span, with its bar on a time axis.
import { html, signal } from "../../lib.js";
import { setQuery } from "../../core/router.js";
import { formatDuration } from "../../core/time.js";
import { money } from "../../core/words.js";
import { Line, VirtualRows } from "../../ui/ui.js";
import { endAt, shortId } from "./spans.js";

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
