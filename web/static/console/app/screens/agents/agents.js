// All agents: what each does and why, and what can be done with many at once.
import { html, useRef, useState } from "../../lib.js";
import { get, post, session } from "../../core/api.js";
import { useKeys, useRows } from "../../core/keys.js";
import { useGet, useLiveRows } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { costWords, Instant, localize, money, PHASES, plural, Relative } from "../../core/words.js";
import { Choice, Dialog, Empty, Field, Form, Line, Loaded, namesOf, Page, PhaseBadge, Sentence, TextFilter, VirtualRows, ZoneField } from "../../ui/ui.js";
import { ActionBar } from "./actions.js";

// The selected agents: by hand, or all that match. Up to 100 of them stand in the address.

const MAX_IN_ADDRESS = 100;

/** Return the selection over `rows` and how it changes; `match` are the filters of the list. */
export const useSelection = (rows, match, total) => {
  const [many, setMany] = useState(null);
  const last = useRef(null);
  const { selected } = query.value;
  const allMatching = selected === "all";
  const ids = allMatching ? new Set() : selected ? new Set(selected.split(",")) : (many ?? new Set());
  const update = (wanted) => {
    const isMany = wanted.size > MAX_IN_ADDRESS;
    setMany(isMany ? wanted : null);
    setQuery({ selected: isMany ? null : [...wanted].join(",") }, { replace: true });
  };
  const toggle = (id, withRange) => {
    const wanted = new Set(allMatching ? rows.map((row) => row.agent) : ids);
    const isAdded = !wanted.has(id);
    const index = rows.findIndex((row) => row.agent === id);
    const from = withRange ? rows.findIndex((row) => row.agent === last.current) : -1;
    const range = from < 0 ? [id] : rows.slice(Math.min(from, index), Math.max(from, index) + 1).map((row) => row.agent);
    for (const one of range) wanted[isAdded ? "add" : "delete"](one);
    last.current = id;
    update(wanted);
  };
  return {
    ids,
    allMatching,
    match: { filters: match },
    count: allMatching ? total : ids.size,
    has: (id) => allMatching || ids.has(id),
    toggle,
    selectLoaded: () => update(new Set(rows.map((row) => row.agent))),
    selectAll: () => setQuery({ selected: "all" }, { replace: true }),
    clear: () => update(new Set()),
  };
};

// The filters of the agents, all of them in the address.

const NAMES = ["search", "phase", "template", "tag", "status", "purpose", "name", "parent", "organization", "include_archived"];
const FURTHER = NAMES.slice(4);
const SORTS = [
  ["", "newest first"],
  ["name", "name"],
  ["next_wake", "next wake"],
  ["-cost_today", "cost today"],
  ["-uncleared_high", "uncleared high notifications"],
];
const OF_LANES = new Set(["unknown", "not_yet", "mixed"]); // not phases of agents
const STATUSES = ["running", "sleeping", "archived"];
const PURPOSES = ["production", "eval"];

/** Return the filters in the address, by the names of the API. */
export const filtersOf = (address) => Object.fromEntries(NAMES.filter((name) => address[name]).map((name) => [name, address[name]]));

/** Change filters; a selection was made among other agents, so it ends. */
const filter = (changes) => setQuery({ ...changes, selected: null, row: null }, { replace: true });

/** Remove all filters. */
export const clearFilters = () => filter(Object.fromEntries(NAMES.map((name) => [name, null])));

const choose = (name) => (value) => filter({ [name]: value });
const any = (words, values) => [["", words], ...values.map((one) => (Array.isArray(one) ? one : [one, one]))];

const Templates = () => {
  const { data } = useGet("/api/templates/", { limit: 500 });
  const chosen = query.value.template;
  return html`<${Choice} label="Template" value=${chosen} options=${any("any template", namesOf(data, chosen))} change=${choose("template")} />`;
};

const TagFilter = () => {
  const tags = [query.value.tag ?? []].flat();
  const add = (event) => {
    const tag = event.target.value.trim();
    event.target.value = "";
    if (tag && !tags.includes(tag)) filter({ tag: [...tags, tag] });
  };
  return html`${tags.map(
      (tag) => html`<button class="agents-tag" key=${tag} aria-label="Remove the filter by the tag ${tag}" onClick=${() => filter({ tag: tags.filter((one) => one !== tag) })}>
        <bdi>${tag}</bdi> ✕
      </button>`,
    )}
    <input class="agents-add-tag" aria-label="Add a tag to filter by" placeholder="+ tag" onChange=${add} />`;
};

const Further = () => {
  const { status, purpose, name = "", parent = "", organization, include_archived: archived } = query.value;
  const { organizations = [] } = session.value ?? {};
  const own = organizations.map((one) => [one.id, one.name]);
  const set = FURTHER.filter((one) => query.value[one]).length;
  return html`<details class="agents-further" open=${set > 0}>
    <summary>More filters${set > 0 && ` (${set})`}</summary>
    <div class="filters">
      <${Choice} label="Status" value=${status} options=${any("any status", STATUSES)} change=${choose("status")} />
      <${Choice} label="Purpose" value=${purpose} options=${any("any purpose", PURPOSES)} change=${choose("purpose")} />
      <${TextFilter} label="Exact name" value=${name} change=${choose("name")} />
      <${TextFilter} label="Id of the parent" value=${parent} change=${choose("parent")} />
      ${own.length > 1 && html`<${Choice} label="Organization" value=${organization} options=${any("all organizations", own)} change=${choose("organization")} />`}
      <label><input type="checkbox" checked=${archived === "true"} onChange=${(event) => filter({ include_archived: event.target.checked ? "true" : null })} /> with archived ones</label>
    </div>
  </details>`;
};

/** Show the filters and the order. */
export const Filters = ({ keys }) => {
  const { search = "", phase, sort } = query.value;
  const phases = Object.entries(PHASES).filter(([id]) => !OF_LANES.has(id));
  return html`<div class="filters">
      <${TextFilter} label="Search by name" value=${search} change=${choose("search")} ...${keys} data-filter />
      <${Choice} label="Phase" value=${phase} options=${any("any phase", phases)} change=${choose("phase")} />
      <${Templates} /><${TagFilter} />
      <label class="agents-sort">Sort <${Choice} label="Sort by" value=${sort} options=${SORTS} change=${(value) => setQuery({ sort: value, row: null }, { replace: true })} /></label>
    </div>
    <${Further} />`;
};

// One agent in the list.

const SHOWN_TAGS = 3;

const Cost = ({ cost, unpriced, cap }) => {
  const words = costWords(cost, unpriced);
  if (cap === null) return html`<div class="agents-cost"><span class="number">${words}</span></div>`;
  const share = cap === 0 ? 1 : Math.min(1, cost / cap);
  const label = `${words} of ${money(cap)} today`;
  return html`<div class="agents-cost" title=${label}>
    <span class="number">${words}</span> <small>of ${money(cap)}</small>
    <div class="agents-bar ${share >= 1 ? "full" : share >= 0.8 ? "near" : ""}" role="img" aria-label=${label}>
      <div style=${{ width: `${share * 100}%` }}></div>
    </div>
  </div>`;
};

const NextWake = ({ wake, zone }) =>
  wake
    ? html`<div class="agents-wake" title=${localize(wake.because, zone)}><${Relative} at=${wake.at} /><small><${Instant} at=${wake.at} zone=${zone} /></small></div>`
    : html`<div class="agents-wake muted" title="Only something new can wake it."><span aria-hidden="true">–</span><span class="hidden">no next wake</span></div>`;

const Tags = ({ tags }) =>
  html`${tags.slice(0, SHOWN_TAGS).map((tag) => html`<span class="badge agents-label" key=${tag}><${Line} value=${tag} max=${40} /></span>`)}
  ${tags.length > SHOWN_TAGS && html`<small>+${tags.length - SHOWN_TAGS}</small>`}`;

/** Show an agent: its name, phase and tags above the sentence; its next wake, cost and waiting work beside them. */
export const AgentRow = ({ row, isCurrent, isSelected, toggle, select }) => {
  const { agent, name, phase, why, tags, timezone: zone, next_wake: wake, uncleared_high: highs } = row;
  return html`<div class="agents-row ${isCurrent ? "current" : ""} ${row.isGone ? "gone" : ""}" onClick=${() => select(agent)}>
    <label class="agents-check" onClick=${(event) => event.stopPropagation()}>
      <input type="checkbox" aria-label="Select ${name}" checked=${isSelected} onClick=${(event) => toggle(agent, event.shiftKey)} />
    </label>
    <div class="agents-main">
      <div class="agents-name">
        <a href="/console/agents/${agent}" aria-current=${isCurrent ? "true" : undefined}><${Line} value=${name} max=${120} /></a>
        ${row.isGone ? html`<span class="badge bad">deleted</span>` : html`<${PhaseBadge} phase=${phase} />`}
        <${Tags} tags=${tags} />
      </div>
      <div class="agents-why" title=${localize(why, zone)}><${Sentence} text=${why} zone=${zone} /></div>
    </div>
    <${NextWake} wake=${wake} zone=${zone} />
    <${Cost} cost=${row.cost_today_usd} unpriced=${row.unpriced_calls_today} cap=${row.max_cost_usd_per_day} />
    <div class="agents-highs">${highs > 0 && html`<span class="badge warn" title="high notifications that are not cleared">${highs.toLocaleString("en")}<span class="agents-words"> uncleared</span></span>`}</div>
  </div>`;
};

// The window in which an agent is created.

const INBOX = "builtin/inbox";

const create = async ({ name, template, model, timezone, max_sleep_hours: hours }) => {
  const chosen = model.trim() ? { model: model.trim() } : {};
  const body = { name, template: template || null, timezone, max_sleep_hours: hours, ...chosen };
  const agent = await post("/api/cloud/agents/", body);
  navigate(`/console/agents/${agent.id}`);
};

/** Show the form for a new agent. */
export const NewAgent = ({ close, template = "" }) => {
  const { data: templates } = useGet("/api/templates/", { limit: 500 });
  const [chosen, setChosen] = useState(template);
  const inherited = templates?.find(({ id }) => id === chosen)?.default_model;
  const options = [["", "none"], ...namesOf(templates)];
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`<${Dialog} title="New agent" close=${close}>
    <${Form} save=${create} submit="Create the agent" onInput=${(values) => setChosen(values.template)}>
      <${Field} label="Name" name="name" autofocus />
      <${Field} label="Template" name="template" type="select" key=${templates ? "known" : "unknown"} value=${chosen} options=${options} help="The settings that it shares with others." />
      <${Field}
        label="Model"
        name="model"
        key=${inherited ?? ""}
        value=${inherited ? "" : INBOX}
        placeholder=${inherited}
        list="agents-models"
        help=${inherited ? `Leave it empty for that of the template: ${inherited}.` : `${INBOX} needs no network: it reads the queue and clears it.`}
      />
      <datalist id="agents-models"><option value=${INBOX}></option></datalist>
      <${ZoneField} label="Time zone" name="timezone" value=${zone} />
      <${Field} label="Longest sleep, in hours" name="max_sleep_hours" type="number" min="0" help="It wakes at the latest after this time. Empty: only something new wakes it." />
    <//>
  <//>`;
};

const PATH = "/api/cloud/supervisors/";
const TYPES = ["agent.*", "run.*", "notification.*", "budget.*", "organization.*"];
const PAGE = 200; // rows; as many are loaded ahead
const MAX_TOTAL = 100_000; // what the service counts up to
const HEIGHT = 58;
const NARROW_HEIGHT = 108;
const VALUES = {
  name: (row) => row.name.toLowerCase(),
  next_wake: (row) => row.next_wake?.at,
  "-cost_today": (row) => row.cost_today_usd,
  "-uncleared_high": (row) => row.uncleared_high,
};

const useAgents = (filters, sort) => {
  const valueOf = VALUES[sort] ?? (() => null);
  return useLiveRows({
    path: PATH,
    query: { ...filters, sort, limit: PAGE },
    idOf: (row) => row.agent,
    types: TYPES,
    idIn: (event) => event.agent,
    isNew: (event) => event.type === "agent.created",
    isNewestFirst: !sort,
    read: (ids) => get(PATH, { agent: ids, include_archived: true, limit: PAGE }),
    isMoved: (old, row) => valueOf(old) !== valueOf(row) || (filters.phase && filters.phase !== row.phase),
  });
};

const countWords = (total) =>
  total === null ? "" : total >= MAX_TOTAL ? `${MAX_TOTAL.toLocaleString("en")} agents or more` : plural(total, "agent");

const Status = ({ agents, selection }) => {
  const { rows, total, moved, next } = agents;
  const loaded = next && rows.length < total ? `, ${rows.length.toLocaleString("en")} loaded` : "";
  const canSelectAll = !selection.allMatching && rows.length > 0;
  return html`<div class="agents-status">
    <span role="status">${countWords(total)}${loaded}</span>
    ${canSelectAll &&
    html`<button class="quiet" onClick=${selection.selectLoaded}>Select the ${rows.length.toLocaleString("en")} shown</button>
      ${next && html`<button class="quiet" onClick=${selection.selectAll}>Select all ${total >= MAX_TOTAL ? "" : total.toLocaleString("en")} that match</button>`}`}
    ${selection.count > 0 &&
    html`<b>${selection.allMatching ? `All ${countWords(total)} that match are selected` : `${plural(selection.count, "agent")} selected`}</b>
      <button class="quiet" onClick=${selection.clear}>Select none</button>`}
    ${moved.size > 0 && html`<button class="agents-moved" onClick=${agents.reload}>${moved.size.toLocaleString("en")} changed · refresh the order</button>`}
  </div>`;
};

const Nothing = ({ hasFilters, add }) =>
  hasFilters
    ? html`<${Empty} title="No agent matches"><p>Other agents may: change the filters, or remove them.</p>
        <button onClick=${clearFilters}>Remove all filters</button><//>`
    : html`<${Empty} title="There are no agents yet"><p>An agent sleeps until something wakes it, runs, and sleeps again. Create one, or take the guided first steps.</p>
        <button class="primary" onClick=${add}>New agent</button> <a class="button" href="/console/start">First steps</a><//>`;

const HEADINGS = html`<div class="agents-row agents-headings" aria-hidden="true">
  <span></span><span>Agent</span><span>Next wake</span><span class="agents-cost">Cost today</span><span class="agents-highs">Waiting</span>
</div>`;

const List = ({ agents, selection, rows: { selected, select } }) => {
  const { rows, places } = agents;
  const height = matchMedia("(max-width: 760px)").matches ? NARROW_HEIGHT : HEIGHT;
  const row = (index) => {
    const one = rows[index];
    const { agent } = one;
    return html`<${AgentRow} row=${one} isCurrent=${agent === selected} isSelected=${selection.has(agent)} toggle=${selection.toggle} select=${select} />`;
  };
  return html`${HEADINGS}<${VirtualRows}
    label="Agents"
    count=${rows.length}
    height=${height}
    row=${row}
    selected=${places.get(selected) ?? -1}
    ahead=${PAGE}
    onEnd=${agents.more}
    onView=${(first, last) => agents.see(first, last)}
  />`;
};

/** Return what the search field does: it has the focus first, Enter opens the one match, the arrow goes to the rows. */
const searchKeys = (agents, { select }) => {
  const { row, selected, new: isNew } = query.peek();
  const first = () => agents.rows[0]?.agent;
  const open = async ({ target }) => {
    const text = target.value.trim();
    const found = await get(PATH, { ...filtersOf(query.peek()), search: text, limit: 2 });
    if (text && found.length === 1) navigate(`/console/agents/${found[0].agent}`);
  };
  return {
    autofocus: matchMedia("(hover: hover)").matches && !row && !selected && !isNew,
    onEnter: open,
    onArrowDown: ({ target }) => (target.blur(), first() && select(first())),
  };
};

/** Show the agents of the address. */
export default () => {
  const { sort, new: isNew, template } = query.value;
  const filters = filtersOf(query.value);
  const agents = useAgents(filters, sort);
  const rows = useRows({ ids: agents.rows.map((row) => row.agent), open: (id) => navigate(`/console/agents/${id}`) });
  const selection = useSelection(agents.rows, filters, agents.total);
  const setNew = (value) => setQuery({ new: value });
  useKeys({
    c: { help: "Create an agent", run: () => setNew("agent") },
    x: { help: "Select the row, or not", run: (event) => rows.selected && selection.toggle(rows.selected, event.shiftKey) },
    X: { help: "Select all rows from the last one to this", run: () => rows.selected && selection.toggle(rows.selected, true) },
  });
  const hasFilters = Object.keys(filters).length > 0;
  return html`<${Page} title="Agents" actions=${html`<button class="primary" onClick=${() => setNew("agent")}>New agent</button>`}>
    <${Filters} keys=${searchKeys(agents, rows)} />
    <${Loaded} of=${agents}>
      ${({ length }) => html`<${Status} agents=${agents} selection=${selection} />
        ${length ? html`<${List} agents=${agents} selection=${selection} rows=${rows} />` : html`<${Nothing} hasFilters=${hasFilters} add=${() => setNew("agent")} />`}`}
    <//>
    ${selection.count > 0 && html`<div class="agents-float"><${ActionBar} selection=${selection} done=${agents.reload} /></div>`}
    ${isNew && html`<${NewAgent} close=${() => setNew(null)} template=${template} />`}
  <//>`;
};
