// The documents of an agent: a tree by path, each with its versions.
import { html, useState } from "../../lib.js";
import { useGet, usePages } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { Instant } from "../../core/words.js";
import { Badge, Button, Empty, Line, Loaded, QueryChoice, Text } from "../../ui/ui.js";
import { authorOf, Versions } from "../../ui/versions.js";

const DOCUMENTS = "/api/defaults/documents/";
const FRESH = { events: ["run.ended"], every: 15 }; // changes of documents are no events

const folderOf = (path) => (path ? path.slice(0, path.lastIndexOf("/") + 1) : "");

const Entry = ({ document, chosen }) => html`<li>
  <button type="button" aria-current=${document.id === chosen ? "true" : undefined} onClick=${() => setQuery({ document: document.id, version: null })}>
    <${Line} value=${document.path ? document.path.slice(folderOf(document.path).length) : document.title} max=${60} />
    ${document.snippet && html`<small><${Line} value=${document.snippet.replaceAll("**", "")} max=${120} /></small>`}
  </button>
</li>`;

const Tree = ({ documents, chosen }) => {
  const folders = new Map();
  for (const one of documents) folders.set(folderOf(one.path), [...(folders.get(folderOf(one.path)) ?? []), one]);
  const ordered = [...folders].sort(([a], [b]) => a.localeCompare(b));
  return ordered.map(
    ([folder, inside]) => html`<div key=${folder} class="documents-folder">
      <h3>${folder ? html`<${Line} value=${folder} max=${80} />` : "Without a path"}</h3>
      <ul>${inside.map((document) => html`<${Entry} key=${document.id} document=${document} chosen=${chosen} />`)}</ul>
    </div>`,
  );
};

const Document = ({ id, agent }) => {
  const document = useGet(`${DOCUMENTS}${id}/`, {}, FRESH);
  return html`<${Loaded} of=${document}>
    ${(found) => html`<h2><${Line} value=${found.title} max=${120} /> ${found.deleted_at && html`<${Badge} tone="bad">deleted<//>`}</h2>
      <p class="muted">
        ${found.path && html`<code><${Line} value=${found.path} /></code> · `}version ${found.version} by ${authorOf(found)} · ${" "}
        <${Instant} at=${found.updated_at} zone=${agent.timezone} />
      </p>
      <div class="documents-text" tabindex="0" role="region" aria-label="Text">${found.content ? html`<${Text} value=${found.content} />` : html`<p class="muted">It is empty.</p>`}</div>
      <${Versions} path="${DOCUMENTS}${id}/versions/" zone=${agent.timezone} isDeleted=${found.deleted_at !== null} reload=${document.reload} />`}
  <//>`;
};

const Found = ({ agent, words }) => {
  const hits = useGet(`${DOCUMENTS}search/`, { query: words, agent: agent.id, limit: 50 });
  const none = html`<p class="muted">No document has these words.</p>`;
  return html`<${Loaded} of=${hits} empty=${none}>${(all) => html`<${Tree} documents=${all} chosen=${query.value.document} />`}<//>`;
};

const List = ({ agent, deleted, project }) => {
  const pages = usePages(DOCUMENTS, { agent: agent.id, deleted, project, limit: 100 }, FRESH);
  const none = html`<p class="muted">${deleted ? "The agent has deleted nothing." : "The agent keeps no documents yet. Its tool memory writes them, or you by POST /api/defaults/documents/."}</p>`;
  return html`<${Loaded} of=${pages} empty=${none}>
    ${(all) => html`<${Tree} documents=${all} chosen=${query.value.document} />
      ${pages.hasMore && html`<${Button} kind="quiet" run=${pages.more}>More documents<//>`}`}
  <//>`;
};

/** Show the documents of an agent. */
export default ({ agent }) => {
  const { q, document, deleted, project } = query.value;
  const [words, setWords] = useState(q ?? "");
  const projects = useGet("/api/defaults/projects/", { agent: agent.id, limit: 200 });
  const search = (event) => {
    event.preventDefault();
    setQuery({ q: words.trim() || null });
  };
  return html`<div class="documents">
    <nav class="card" aria-label="Documents">
      <form class="filters" role="search" onSubmit=${search}>
        <input data-filter type="search" aria-label="Search documents" placeholder="Search words" value=${words} onInput=${(event) => setWords(event.target.value)} />
        <button>Search</button>
        ${projects.data?.length > 0 &&
html`<${QueryChoice} label="Project" name="project" options=${[["", "all"], ...projects.data.map(({ id, name, status }) => [id, `${name} (${status})`])]} />`}
        <label class="check"><input type="checkbox" checked=${deleted === "true"} onChange=${(event) => setQuery({ deleted: event.target.checked ? "true" : null })} /> Deleted</label>
      </form>
      ${q ? html`<${Found} agent=${agent} words=${q} />` : html`<${List} agent=${agent} deleted=${deleted === "true" ? "true" : null} project=${project} />`}
    </nav>
    <section class="card" aria-label="Document">
      ${document ? html`<${Document} key=${document} id=${document} agent=${agent} />` : html`<${Empty} title="Choose a document"><p>Its text, its versions and what each of them changed appear here.</p><//>`}
    </section>
  </div>`;
};
