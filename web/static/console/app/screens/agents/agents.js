// All agents: what each does and why, and what can be done with many at once.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useKeys, useRows } from "../../core/keys.js";
import { useLiveRows } from "../../core/live_rows.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { plural } from "../../core/words.js";
import { Empty, Loaded, Page, VirtualRows } from "../../ui/ui.js";
import { ActionBar } from "./action_bar.js";
import { clearFilters, Filters, filtersOf } from "./filters.js";
import { NewAgent } from "./new_agent.js";
import { AgentRow } from "./row.js";
import { useSelection } from "./selection.js";

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
  <span></span><span>Agent</span><span>Next wake</span><span class="agents-cost">Cost today</span><span class="agents-highs">Highs</span>
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
    <${Filters} />
    <${Loaded} of=${agents}>
      ${({ length }) => html`<${Status} agents=${agents} selection=${selection} />
        ${length ? html`<${List} agents=${agents} selection=${selection} rows=${rows} />` : html`<${Nothing} hasFilters=${hasFilters} add=${() => setNew("agent")} />`}`}
    <//>
    ${selection.count > 0 && html`<div class="agents-float"><${ActionBar} selection=${selection} done=${agents.reload} /></div>`}
    ${isNew && html`<${NewAgent} close=${() => setNew(null)} template=${template} />`}
  <//>`;
};
