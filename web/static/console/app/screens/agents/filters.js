// The filters of the agents, all of them in the address.
import { html } from "../../lib.js";
import { useGet } from "../../core/resource.js";
import { query, setQuery } from "../../core/router.js";
import { session } from "../../core/session.js";
import { PHASES } from "../../core/words.js";
import { Choice, namesOf, TextFilter } from "../../ui/ui.js";

const NAMES = ["search", "phase", "template", "tag", "status", "purpose", "name", "parent", "organization", "include_archived"];
const FURTHER = NAMES.slice(4);
const SORTS = [
  ["", "newest first"],
  ["name", "name"],
  ["next_wake", "next wake"],
  ["-cost_today", "cost today"],
  ["-uncleared_high", "uncleared highs"],
];
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

const Tags = () => {
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
export const Filters = () => {
  const { search = "", phase, sort } = query.value;
  const phases = Object.entries(PHASES).filter(([id]) => id !== "unknown" && id !== "mixed");
  return html`<div class="filters">
      <${TextFilter} label="Search by name" value=${search} change=${choose("search")} data-filter />
      <${Choice} label="Phase" value=${phase} options=${any("any phase", phases)} change=${choose("phase")} />
      <${Templates} /><${Tags} />
      <label class="agents-sort">Sort <${Choice} label="Sort by" value=${sort} options=${SORTS} change=${(value) => setQuery({ sort: value, row: null }, { replace: true })} /></label>
    </div>
    <${Further} />`;
};
