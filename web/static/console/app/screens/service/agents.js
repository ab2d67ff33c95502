// The agents of all organizations, for operators.
import { html } from "../../lib.js";
import { useRows } from "../../core/keys.js";
import { useGet } from "../../core/resource.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { PHASES } from "../../core/words.js";
import { Choice, Empty, Instant, Line, Loaded, PhaseBadge, Sentence, Table, TextFilter } from "../../ui/ui.js";

const LIMIT = 100;
const ID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const NOT_FILTERS = new Set(["unknown", "mixed", "over_budget"]);
const PHASE_OPTIONS = [["", "all phases"], ...Object.entries(PHASES).filter(([id]) => !NOT_FILTERS.has(id))];

const COLUMNS = [
  { title: "Agent", cell: (row) => html`<a href="/console/service/${row.agent}"><${Line} value=${row.name} max=${60} /></a>` },
  { title: "Phase", cell: (row) => html`<${PhaseBadge} phase=${row.phase} />` },
  { title: "Why", cell: (row) => html`<${Sentence} text=${row.why} />` },
  { title: "Next wake", cell: (row) => html`<${Instant} at=${row.next_wake?.at} />` },
  { title: "Organization", cell: (row) => html`<button class="quiet service-id" title="Only this organization" onClick=${() => setQuery({ organization: row.organization })}>${row.organization.slice(0, 8)}</button>` },
];

const find = (text) => (ID.test(text) ? navigate(`/console/service/${text.toLowerCase()}`) : setQuery({ name: text }, { replace: true }));

const Rows = ({ rows }) => {
  const { selected } = useRows({ ids: rows.map((row) => row.agent), open: (id) => navigate(`/console/service/${id}`) });
  return html`<${Table} label="Agents of all organizations" columns=${COLUMNS} rows=${rows} id=${(row) => row.agent} selected=${selected} />
    ${rows.length === LIMIT && html`<p class="muted">The first ${LIMIT} agents. Filter to see others.</p>`}`;
};

/** Show the agents that match the filters of the address. */
export const Agents = () => {
  const { name, phase, organization } = query.value;
  const filters = { name, phase, organization, limit: LIMIT };
  const agents = useGet("/status/supervisors/", filters, {
    events: ["agent.*", "run.*"],
  });
  const empty = html`<${Empty} title="No agent matches"><p>The name must be the whole name; upper and lower case are the same.</p><//>`;
  return html`<section class="service-agents" aria-label="Agents">
    <h2>Agents of all organizations</h2>
    <div class="filters">
      <${TextFilter} label="Whole name, or id" value=${name ?? ""} change=${find} data-filter />
      <${Choice} label="Phase" value=${phase} options=${PHASE_OPTIONS} change=${(one) => setQuery({ phase: one })} />
      ${organization && html`<button onClick=${() => setQuery({ organization: null })}>Organization ${organization.slice(0, 8)} ✕</button>`}
    </div>
    <${Loaded} of=${agents} empty=${empty}>${(rows) => html`<${Rows} rows=${rows} />`}<//>
  </section>`;
};
