// Lists and forms of what an organization owns. A screen describes its columns and fields, and gets both.
import { html, useRef } from "../lib.js";
import { del, isAdmin, organization, patch, post, session } from "../core/api.js";
import { useRows } from "../core/keys.js";
import { usePages } from "../core/live.js";
import { navigate, query, setQuery } from "../core/router.js";
import { Button, changesOf, ConfirmButton, CopyButton, Dialog, Field, Form, Loaded, Page, Table, toast } from "./ui.js";

const PAGE = 100;

/** Return whether a resource is of the chosen organization, or is one that everybody may use. */
export const isHere = (row) => {
  const owner = row.organization ?? row.organization_id;
  return !owner || owner === organization.value?.id || row.visibility === "public";
};

/** Return the role of the person in an organization. */
export const roleIn = (id) => session.value.organizations?.find((one) => one.id === id)?.role;

/** Show a list as a table: `text(row)` is what the filter searches, `open(row)` the address of a row. */
export const ResourceList = ({ path, filters, columns, text, open, label, empty, name, events, every, keep = isHere }) => {
  const pages = usePages(path, { limit: PAGE, ...filters }, { events, every });
  const wanted = String(query.value.find ?? "").toLowerCase();
  const rows = (pages.data ?? []).filter((row) => keep(row) && (!wanted || text(row).toLowerCase().includes(wanted)));
  const { selected } = useRows({
    ids: rows.map(({ id }) => id),
    open: (id) => open && navigate(open(rows.find((row) => row.id === id))),
    name,
  });
  const data = pages.data && { ...pages, data: pages.data.some(keep) ? pages.data : [] };
  return html`<${Loaded} of=${data ?? pages} empty=${empty}>
    ${() => html`${text && pages.data.length > 5 && html`<div class="filters">
        <input type="search" data-filter placeholder="Filter" aria-label="Filter ${label}" value=${query.value.find ?? ""} onInput=${(event) => setQuery({ find: event.target.value }, { replace: true })} />
      </div>`}
      <${Table} columns=${columns(pages.reload)} rows=${rows} selected=${selected} label=${label} />
      ${pages.hasMore && html`<p class="resource-more"><${Button} kind="quiet" run=${pages.more}>Show more<//> <span class="muted">The filter searches the ${pages.data.length} rows that have been read.</span></p>`}`}
  <//>`;
};

/** Return the values without those that were left blank, but for fields that began with something. */
const filled = (values, groups) => {
  const begun = new Set(groups.flatMap(({ fields }) => fields).filter(({ from }) => from?.(null)).map(({ name }) => name));
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== null || begun.has(name)));
};

/** Show a form that creates a resource, or changes those fields of it that were edited.
 *
 * `groups`: `{title, fields}`, where each field has the properties of `Field`, and perhaps `from(resource)` for its
 * beginning. `adapt(values)` returns what to send; `saved(answer)` is called after it.
 */
export const ResourceForm = ({ path, resource, groups, adapt = (values) => values, saved, submit, actions, children }) => {
  const before = useRef(resource);
  const save = async (values) => {
    const wanted = adapt(values);
    if (!resource) return saved(await post(path, filled(wanted, groups)));
    const changes = changesOf(wanted, before.current);
    if (Object.keys(changes).length) before.current = await patch(`${path}${resource.id}/`, changes);
    toast(Object.keys(changes).length ? "Saved." : "Nothing has changed.");
    return saved?.(before.current);
  };
  return html`<${Form} save=${save} submit=${submit ?? (resource ? "Save" : "Create")} actions=${actions}>
    ${groups.map(
      ({ title, fields }) => html`<fieldset class="resource-group">
        ${title && html`<legend>${title}</legend>`}
        ${fields.map(({ from, ...field }) => html`<${Field} value=${from ? from(resource) : resource?.[field.name]} ...${field} />`)}
      </fieldset>`,
    )}
    ${children}
  <//>`;
};

/** Show the page for a new resource, which leads to it, or calls `saved` with it. */
export const NewResource = ({ title, home, note, saved, children, ...form }) => html`<${Page} title=${title}>
  ${note}
  <section class="card">
    <${ResourceForm} ...${form} saved=${saved ?? (({ id }) => navigate(`${home}/${id}`, { replace: true }))} actions=${html`<a href=${home}>Cancel</a>`} />
  </section>
  ${children}
<//>`;

/** Show a button that deletes a resource after a question. */
export const DeleteButton = ({ path, query: options, question, done, label = "Delete" }) => html`<${ConfirmButton}
  kind="danger"
  question=${question}
  run=${async () => {
    await del(path, options);
    toast("Deleted.");
    done();
  }}
  >${label}<//
>`;

/** Show a secret that can be read this one time. */
export const OnceDialog = ({ title, text, children, close }) => html`<${Dialog} title=${title} close=${close}>
  <p>${children}</p>
  <pre class="resource-once" tabindex="0">${text}</pre>
  <div class="form-actions"><${CopyButton} text=${text} /><button class="primary" onClick=${close}>I have stored it</button></div>
<//>`;

/** Show a sentence about what only admins can do, to those who are none. */
export const AdminNote = ({ children }) =>
  !isAdmin.value && html`<p class="stale">${children} Your role here is ${organization.value?.role}: ask an admin or owner.</p>`;
