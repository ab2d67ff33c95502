// The queue across all agents: what waits, what is due later, and what was cleared.
import { html, useState } from "../../lib.js";
import { del, get, patch, post } from "../../core/api.js";
import { useKeys, useRows } from "../../core/keys.js";
import { useAgentsOf, useLiveRows, useResource } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { formatInput, Instant, now, plural, Relative, reminderHint, SOURCES, sourceWord, zone, zoneName } from "../../core/words.js";
import { AgentPicker, Button, Choice, ConfirmButton, DateField, Dialog, Empty, Field, Form, Line, Loaded, Page, Text, toast, VirtualRows } from "../../ui/ui.js";

// Moments that people type: in UTC if that is the chosen zone, else in the zone of the browser.

/** Return the words that say in which zone moments are typed. */
export const zoneWords = () => (zone.value === "utc" ? "UTC" : "your time");

/** Return the instant of a typed moment as text, or null for none. */
export const toInstant = (text) => {
  if (!text) return null;
  const moment = new Date(text.replace(" ", "T") + (zone.value === "utc" ? "Z" : ""));
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
};

const toInput = (instant) => (Number.isNaN(Date.parse(instant)) ? "" : formatInput(instant, zoneName()).slice(0, 16));

/** Show a field for a moment; `change` gets the instant, or null. */
export const MomentField = ({ label, value, change, ...rest }) => html`<label class="queue-moment">
  ${label} <${DateField} type="moment" value=${value ? toInput(value) : ""} change=${(text) => change?.(toInstant(text))} ...${rest} />
</label>`;

// The filters of the queue, all of them in the address.

const PERIODS = ["created_after", "created_before", "scheduled_after", "scheduled_before"];
const STATES = [["", "uncleared"], ["cleared", "cleared"], ["all", "cleared or not"]];
const CLEARED = new Map([["", false], ["cleared", true]]);

/** Return the filters in the address as parameters of the API. */
export const filtersOf = (address) => {
  const { agent, source, priority, state = "" } = address;
  return { agent, source, priority, cleared: CLEARED.get(state), ...Object.fromEntries(PERIODS.map((name) => [name, address[name]])) };
};

/** Return whether the address filters at all. */
export const hasFilters = () => ["agent", "source", "priority", "state", ...PERIODS].some((name) => query.value[name]);

const filter = (changes) => setQuery({ ...changes, notification: null }, { replace: true });
const choose = (name) => (value) => filter({ [name]: value });

/** Remove all filters. */
export const clearFilters = () => filter(Object.fromEntries(["agent", "source", "priority", "state", ...PERIODS].map((name) => [name, null])));

const Periods = () => {
  const set = PERIODS.filter((name) => query.value[name]).length;
  const field = (name, label) => html`<${MomentField} label=${label} value=${query.value[name]} change=${choose(name)} />`;
  const ahead = () => filter({ scheduled_after: new Date().toISOString(), scheduled_before: null });
  return html`<details class="agents-further" open=${set > 0}>
    <summary>Times${set > 0 && ` (${set})`}</summary>
    <div class="filters">
      ${field("created_after", "Created from")} ${field("created_before", "to before")}
      ${field("scheduled_after", "Due from")} ${field("scheduled_before", "to before")}
      <small>${zoneWords()}</small> <button class="quiet" onClick=${ahead}>Reminders ahead</button>
    </div>
  </details>`;
};

/** Show the filters. */
export const Filters = () => {
  const { agent, source, priority, state } = query.value;
  return html`<div class="filters">
      <${AgentPicker} label="Agent" placeholder="any agent" value=${agent} change=${choose("agent")} data-filter />
      <${Choice} label="State" value=${state} options=${STATES} change=${choose("state")} />
      <${Choice} label="Priority" value=${priority} options=${[["", "any priority"], ["high", "high"], ["low", "low"]]} change=${choose("priority")} />
      <${Choice} label="Source" value=${source} options=${[["", "any source"], ...Object.entries(SOURCES)]} change=${choose("source")} />
      ${hasFilters() && html`<button class="quiet" onClick=${clearFilters}>Remove all filters</button>`}
    </div>
    <${Periods} />`;
};

// The window in which a notification is written.

/** Show the form for a new notification. */
export const NewNotification = ({ close, done, agent: given = "" }) => {
  const [agent, setAgent] = useState(given);
  const [hint, setHint] = useState(null);
  const save = async ({ title, body, source, priority, at }) => {
    if (!agent) throw { message: "Choose the agent: type a part of its name, then take it from the list." };
    if (at && !toInstant(at)) throw { message: "Write the time as YYYY-MM-DD hh:mm." };
    const created = await post("/api/defaults/notifications/", { agent, title, body, source, priority: priority === "low" ? "low" : "high", urgent: priority === "urgent", scheduled_for: toInstant(at) });
    toast(priority !== "low" && !at ? "Sent. It wakes the agent." : "Sent.");
    close();
    done(created);
  };
  return html`<${Dialog} title="New notification" close=${close}>
    <${Form} save=${save} submit="Send" onInput=${({ priority, at }) => setHint(reminderHint(priority, at))}>
      <div class="field"><label for="queue-agent">Agent</label><${AgentPicker} id="queue-agent" label="Agent" placeholder="a part of its name" value=${agent} change=${setAgent} autofocus=${!given} /></div>
      <${Field} label="Title" name="title" autofocus=${given !== ""} />
      <${Field} label="Text" name="body" type="textarea" />
      <div class="queue-pair">
        <${Field} label="Priority" name="priority" type="select" value="high" options=${[["high", "high: wakes the agent"], ["urgent", "urgent: whatever its limits"], ["low", "low: wakes nobody"]]} />
        <${Field} label="Source" name="source" type="select" value="portal" options=${Object.entries(SOURCES)} />
      </div>
      <div class="field"><${MomentField} label="Due at (${zoneWords()}), empty for now" name="at" /></div>
      <p class="hint" role="status">${hint}</p>
    <//>
  <//>`;
};

// One notification: what it says, and what can be done with it.

const pathOf = (id) => `/api/defaults/notifications/${id}/`;

/** Change a notification, and offer to take the change back; `done` gets what it is then. */
export const change = async (notification, changes, words, done) => {
  const inverse = Object.fromEntries(Object.keys(changes).map((name) => [name, notification[name]]));
  done(await patch(pathOf(notification.id), changes));
  toast(words, { undo: async () => done(await patch(pathOf(notification.id), inverse)) });
};

/** Clear a notification, or put it back into the queue. */
export const toggleCleared = (notification, done) =>
  notification.cleared
    ? change(notification, { cleared: false }, "It is in the queue again.", done)
    : change(notification, { cleared: true }, "Cleared.", done);

const Reschedule = ({ notification, done }) => {
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(null);
  const set = async (moment) => {
    await change(notification, { scheduled_for: moment }, moment ? "It has another time." : "It has no time any more: it is due.", done);
    setOpen(false);
  };
  if (!isOpen) return html`<button onClick=${() => setOpen(true)}>Reschedule</button>`;
  return html`<span class="confirm" role="group" aria-label="Reschedule">
    <${MomentField} label="Due at (${zoneWords()})" value=${notification.scheduled_for} change=${setAt} />
    <${Button} kind="primary" disabled=${!at} run=${() => set(at)}>Set<//>
    ${notification.scheduled_for && html`<${Button} run=${() => set(null)}>Due now<//>`}
    <button class="quiet" onClick=${() => setOpen(false)}>Cancel</button>
  </span>`;
};

const Contents = ({ notification, agent, done, gone }) => {
  const { id, priority, cleared, source_id: sourceId } = notification;
  const isHigh = priority === "high";
  const other = isHigh ? "low" : "high";
  const remove = async () => {
    await del(pathOf(id));
    toast("Deleted.");
    gone(id);
  };
  const at = (moment) => html`<${Instant} at=${moment} zone=${agent?.timezone} style="full" /> · <${Relative} at=${moment} />`;
  return html`<h2 class="queue-title"><${Text} value=${notification.title} /></h2>
    <dl class="facts">
      <dt>Agent</dt><dd><a href="/console/agents/${notification.agent}"><${Line} value=${agent?.name ?? notification.agent} /></a></dd>
      <dt>From</dt><dd>${sourceWord(notification.source)}${sourceId && html` · <${Line} value=${sourceId} />`}</dd>
      <dt>Priority</dt><dd>${isHigh ? "high: it wakes the agent until it is cleared" : "low: it wakes nobody"}</dd>
      <dt>Created</dt><dd>${at(notification.created_at)}</dd>
      ${notification.scheduled_for && html`<dt>Due</dt><dd>${at(notification.scheduled_for)}</dd>`}
      ${cleared && html`<dt>Cleared</dt><dd>${at(notification.cleared_at)}</dd>`}
    </dl>
    ${notification.body && html`<div class="queue-body"><${Text} value=${notification.body} key=${id} /></div>`}
    <div class="actions">
      <${Button} kind="primary" run=${() => toggleCleared(notification, done)}>${cleared ? "Put back" : "Clear"}<//>
      <${Button} run=${() => change(notification, { priority: other }, `Its priority is ${other} now.`, done)}>${isHigh ? "Lower to low" : "Raise to high"}<//>
      <${Reschedule} key=${id} notification=${notification} done=${done} />
      <${ConfirmButton} kind="danger" question="Delete it for good?" run=${remove}>Delete<//>
    </div>`;
};

const readWithAgent = async (id, signal) => {
  const notification = await get(pathOf(id), {}, signal);
  const [of] = await get("/api/cloud/supervisors/", { agent: notification.agent, include_archived: true }, signal);
  return { ...notification, of };
};

/** Show the notification of the address beside the list; `known` is what the list has of it. */
export const Panel = ({ id, known, agent, close, done, gone }) => {
  const read = useResource((signal) => (known ? Promise.resolve(known) : readWithAgent(id, signal)), [id]);
  const shown = known ? { ...read, data: known } : read;
  const after = (notification) => {
    done(notification);
    if (!known) read.reload();
  };
  return html`<aside class="card queue-panel" aria-label="Notification">
    <button class="quiet queue-close" aria-label="Close" onClick=${close}>✕</button>
    <${Loaded} of=${shown}>${(data) => html`<${Contents} notification=${data} agent=${agent ?? data.of} done=${after} gone=${gone} />`}<//>
  </aside>`;
};

const PATH = "/api/defaults/notifications/";
const PAGE = 100;
const HEIGHT = 56;

const readMany = (ids) => Promise.all(ids.map((id) => get(`${PATH}${id}/`).catch((error) => (error.status === 404 ? null : Promise.reject(error))))).then((found) => found.filter(Boolean));

const useQueue = (filters) =>
  useLiveRows({
    path: PATH,
    query: { ...filters, limit: PAGE },
    idOf: (row) => row.id,
    types: ["notification.*"],
    idIn: (event) => event.resource_id,
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
    : html`<${Empty} title="The queue is empty"><p>What wakes an agent or waits for it appears here: messages, reminders, and what programs send. All of it has been cleared.</p>
        <button class="primary" onClick=${() => setQuery({ new: "notification" })}>New notification</button><//>`;

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
