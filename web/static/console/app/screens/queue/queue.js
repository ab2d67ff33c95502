// The queue across all agents: what waits, what is due later, and what was cleared.
import { html, useEffect, useState } from "../../lib.js";
import { get } from "../../core/api.js";
import { useKeys, useRows } from "../../core/keys.js";
import { useLiveRows } from "../../core/live_rows.js";
import { query, setQuery } from "../../core/router.js";
import { now } from "../../core/time.js";
import { plural, sourceWord } from "../../core/words.js";
import { Button, Empty, Line, Loaded, Page, Relative, VirtualRows } from "../../ui/ui.js";
import { clearFilters, Filters, filtersOf, hasFilters } from "./filters.js";
import { NewNotification } from "./new_notification.js";
import { change, Panel, toggleCleared } from "./panel.js";

const PATH = "/api/defaults/notifications/";
const PAGE = 100;
const HEIGHT = 56;
const MAX_NAMES = 100; // agents of one request

const readMany = (ids) => Promise.all(ids.map((id) => get(`${PATH}${id}/`).catch((error) => (error.status === 404 ? null : Promise.reject(error))))).then((found) => found.filter(Boolean));

const useQueue = (filters) =>
  useLiveRows({
    path: PATH,
    query: { ...filters, limit: PAGE },
    idOf: (row) => row.id,
    types: ["notification.*"],
    idIn: (event) => event.resource,
    isNew: ({ type, agent, data }) =>
      type === "notification.created" &&
      (!filters.agent || filters.agent === agent) &&
      (!filters.source || filters.source === data.source) &&
      (!filters.priority || filters.priority === data.priority),
    isNewestFirst: true,
    batch: 10,
    read: readMany,
    isMoved: () => false,
  });

/** Return what is known of the agents of the rows, by id; unknown ones are read a hundred at a time. */
const useAgentsOf = (rows) => {
  const [agents, setAgents] = useState(new Map());
  const missing = [...new Set(rows.map((row) => row.agent))].filter((id) => !agents.has(id)).slice(0, MAX_NAMES);
  useEffect(() => {
    if (!missing.length) return;
    get("/api/cloud/supervisors/", { agent: missing, include_archived: true, limit: MAX_NAMES }).then((found) => {
      const known = new Map(agents);
      for (const id of missing) known.set(id, null);
      for (const one of found) known.set(one.agent, one);
      setAgents(known);
    }, () => {});
  }, [missing.join()]);
  return agents;
};

const stateOf = (row) => {
  if (row.isGone) return html`<span class="badge bad">deleted</span>`;
  if (row.cleared) return html`<span class="muted">cleared <${Relative} at=${row.cleared_at} /></span>`;
  if (row.scheduled_for && Date.parse(row.scheduled_for) > now.value) return html`<span class="badge">due <${Relative} at=${row.scheduled_for} /></span>`;
  return row.priority === "high" ? html`<span class="badge warn">waiting</span>` : html`<span class="muted">waiting</span>`;
};

const Row = ({ row, agent, isCurrent, select, put }) => html`<div class="queue-row ${isCurrent ? "current" : ""} ${row.cleared || row.isGone ? "done" : ""}" onClick=${() => select(row.id)}>
  <span class="badge ${row.priority === "high" ? "bad" : ""}">${row.priority}</span>
  <div class="queue-main">
    <button class="queue-open" aria-expanded=${isCurrent} onClick=${() => select(row.id)}><${Line} value=${row.title} /></button>
    <small><a href="/console/agents/${row.agent}" onClick=${(event) => event.stopPropagation()}><${Line} value=${agent?.name ?? "…"} max=${80} /></a> · ${sourceWord(row.source)}</small>
  </div>
  <div class="queue-state">${stateOf(row)}<small><${Relative} at=${row.created_at} /></small></div>
  <span onClick=${(event) => event.stopPropagation()}>${!row.isGone && html`<${Button} kind="quiet" run=${() => toggleCleared(row, put)}>${row.cleared ? "Put back" : "Clear"}<//>`}</span>
</div>`;

const Nothing = () =>
  hasFilters()
    ? html`<${Empty} title="Nothing matches"><p>Other notifications may: change the filters, or remove them.</p><button onClick=${clearFilters}>Remove all filters</button><//>`
    : html`<${Empty} title="The queue is empty"><p>All notifications have been cleared. New ones appear here as they come.</p><//>`;

const List = ({ queue, agents, selected, select, put }) => {
  const { rows, places, moved } = queue;
  return html`<div class="queue-list">
    <div class="agents-status">
      <span role="status">${plural(rows.length, "notification")}${queue.next ? " loaded" : ""}, newest first</span>
      ${moved.size > 0 && html`<button class="agents-moved" onClick=${queue.reload}>${moved.size.toLocaleString("en")} new · show</button>`}
    </div>
    <${VirtualRows}
      label="Notifications"
      count=${rows.length}
      height=${HEIGHT}
      row=${(index) => html`<${Row} row=${rows[index]} agent=${agents.get(rows[index].agent)} isCurrent=${rows[index].id === selected} select=${select} put=${put} />`}
      selected=${places.get(selected) ?? -1}
      ahead=${PAGE}
      onEnd=${queue.more}
      onView=${(first, last) => queue.see(first, last)}
    />
  </div>`;
};

const Body = ({ queue, agents, rows: { selected, select }, put }) => {
  const close = () => select(null);
  const known = queue.rows[queue.places.get(selected)];
  const gone = (id) => {
    close();
    queue.remove(id);
  };
  return html`<${Loaded} of=${queue}>${({ length }) => html`<div class="queue-split ${selected ? "open" : ""}">
    ${length ? html`<${List} queue=${queue} agents=${agents} selected=${selected} select=${select} put=${put} />` : html`<${Nothing} />`}
    ${selected && html`<${Panel} key=${selected} id=${selected} known=${known?.isGone ? null : known} agent=${agents.get(known?.agent)} close=${close} done=${put} gone=${gone} />`}
  </div>`}<//>`;
};

/** Show the queue of the address. */
export default () => {
  const { new: isNew, agent } = query.value;
  const queue = useQueue(filtersOf(query.value));
  const agents = useAgentsOf(queue.rows);
  const rows = useRows({ ids: queue.rows.map((row) => row.id), name: "notification" });
  const put = (row) => queue.put(row);
  const setNew = (value) => setQuery({ new: value });
  const withRow = (run) => () => {
    const row = queue.rows[queue.places.get(rows.selected)];
    return row && !row.isGone && run(row);
  };
  useKeys({
    c: { help: "Write a notification", run: () => setNew("notification") },
    e: { help: "Clear the notification, or put it back", run: withRow((row) => toggleCleared(row, put)) },
    h: { help: "Raise the notification to high", run: withRow((row) => row.priority === "low" && change(row, { priority: "high" }, "Its priority is high now.", put)) },
    Escape: { help: "Close the notification", run: () => rows.select(null) },
  });
  return html`<${Page} title="Queue" actions=${html`<button class="primary" onClick=${() => setNew("notification")}>New notification</button>`}>
    <${Filters} />
    <${Body} queue=${queue} agents=${agents} rows=${rows} put=${put} />
    ${isNew && html`<${NewNotification} close=${() => setNew(null)} done=${queue.reload} agent=${agent} />`}
  <//>`;
};
