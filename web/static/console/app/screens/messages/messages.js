// The messages of all agents: first those that were not sent, then all, newest first.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useKeys, useRows } from "../../core/keys.js";
import { useAgentsOf, useLiveRows, usePages } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { plural, Relative, sourceWord } from "../../core/words.js";
import { actOn, AgentPicker, Badge, Button, Choice, ConfirmButton, Empty, Line, Loaded, Page, VirtualRows } from "../../ui/ui.js";

const PATH = "/api/defaults/messages/";
const TYPES = ["message.*"];
const KIND = "failed_message";
const FILTERS = ["agent", "contact", "status", "channel", "direction"];
const PAGE = 100;
const FIRST_FAILED = 20;
const HEIGHT = 70; // of three lines: a message that failed says why
const TONES = { failed: "bad", queued: "warn" };
const WORDS = { failed: "not sent" };
const CHOICES = {
  status: ["any status", "received", "queued", "sent", "failed"],
  direction: ["both directions", "inbound", "outbound"],
  channel: ["any channel", "sms", "mms", "email"],
};

const threadOf = ({ agent, contact }) => `/console/agents/${agent}/conversation${contact ? `?contact=${contact}` : ""}`;

/** Show a message: to or from whom, what it says, and its state; `children` is what can be done with it. */
const Row = ({ message, agent, isCurrent, select, children }) => {
  const { direction, address, contact, channel, status, subject, body, attachments, error } = message;
  const text = subject || body || plural(attachments.length, "attachment");
  return html`<div class="messages-row ${isCurrent ? "current" : ""}" onClick=${() => select(message.id)}>
    <${Badge} tone=${TONES[status] ?? ""}>${WORDS[status] ?? status}<//>
    <div class="messages-main">
      <a href=${threadOf(message)} aria-current=${isCurrent ? "true" : undefined}><${Line} value=${text} max=${160} /></a>
      <small>${sourceWord(channel)} ${direction === "inbound" ? "from" : "to"} <${Line} value=${address || (contact ? "a contact" : "an unknown address")} max=${60} /> · <${Line} value=${agent?.name ?? "…"} max=${60} /></small>
      ${error && html`<small class="error"><${Line} value=${error} max=${160} /></small>`}
    </div>
    <small><${Relative} at=${message.created_at} /></small>
    ${children}
  </div>`;
};

const act = (action, reload, ids) => async () => {
  await actOn(action, KIND, ids);
  reload();
};

/** Show the messages that were not sent and that nobody has dealt with. */
const Failed = ({ failed, agents, rows: { selected, select }, isAll }) => {
  const { data, reload, hasMore, more } = failed;
  if (!data?.length) return null;
  return html`<section class="messages-failed" aria-labelledby="messages-failed">
    <div class="split">
      <h2 id="messages-failed">Not sent</h2>
      ${isAll && data.length > 1 && html`<span class="actions">
        <${ConfirmButton} question="Each goes to its contact." run=${act("send", reload)}>Send all again<//>
        <${ConfirmButton} question="They are not sent." run=${act("dismiss", reload)}>Dismiss all<//>
      </span>`}
    </div>
    <ul class="now-items">
      ${data.map((message) => html`<li key=${message.id}><${Row} message=${message} agent=${agents.get(message.agent)} isCurrent=${message.id === selected} select=${select}>
        <span class="actions">
          <${Button} run=${act("send", reload, [message.id])}>Send again<//>
          ${message.run && html`<a class="button" href="/console/agents/${message.agent}/runs/${message.run}">Open the run</a>`}
          <${Button} kind="quiet" run=${act("dismiss", reload, [message.id])}>Dismiss<//>
        </span>
      <//></li>`)}
    </ul>
    ${hasMore && html`<p><${Button} kind="quiet" run=${more}>Show more<//></p>`}
  </section>`;
};

const Filters = ({ filters }) => {
  const choose = (name) => (value) => setQuery({ [name]: value, message: null }, { replace: true });
  return html`<div class="filters">
    <${AgentPicker} label="Agent" placeholder="any agent" value=${filters.agent} change=${choose("agent")} data-filter />
    ${Object.entries(CHOICES).map(([name, [any, ...values]]) => html`<${Choice}
      label=${name[0].toUpperCase() + name.slice(1)}
      value=${filters[name]}
      options=${[["", any], ...values.map((one) => [one, name === "channel" ? sourceWord(one) : (WORDS[one] ?? one)])]}
      change=${choose(name)}
    />`)}
    ${filters.contact && html`<button class="quiet" onClick=${() => choose("contact")(null)}>Messages of all contacts</button>`}
  </div>`;
};

const NONE = html`<${Empty} title="No messages">
  <p>What people write to agents and what agents answer appears here. Send an agent a text on its tab <b>Queue</b>, or choose other filters.</p>
  <p><a class="button" href="/console/agents">Choose an agent</a></p>
<//>`;

const useMessages = (filters) =>
  useLiveRows({
    path: PATH,
    query: { ...filters, limit: PAGE },
    idOf: (message) => message.id,
    types: TYPES,
    idIn: (event) => event.resource_id,
    isNew: ({ agent }) => !filters.agent || filters.agent === agent,
    isNewestFirst: true,
    batch: 10,
    read: (ids) => Promise.all(ids.map((id) => get(`${PATH}${id}/`))),
    isMoved: () => false,
  });

const List = ({ messages, agents, rows: { selected, select } }) => {
  const { rows, places, moved } = messages;
  return html`<div class="split">
      <h2>All, newest first</h2>
      ${moved.size > 0 && html`<button class="agents-moved" onClick=${messages.reload}>${moved.size.toLocaleString("en")} new · show</button>`}
    </div>
    <${VirtualRows}
      label="Messages"
      count=${rows.length}
      height=${HEIGHT}
      row=${(index) => html`<${Row} message=${rows[index]} agent=${agents.get(rows[index].agent)} isCurrent=${rows[index].id === selected} select=${select} />`}
      selected=${places.get(selected) ?? -1}
      onEnd=${messages.more}
      onView=${(first, last) => messages.see(first, last)}
      style=${{ minHeight: 0, maxHeight: `${rows.length * HEIGHT + 2}px` }}
    />`;
};

/** Show the messages of the address. */
export default () => {
  const filters = Object.fromEntries(FILTERS.filter((name) => query.value[name]).map((name) => [name, query.value[name]]));
  const { agent, contact } = filters;
  const failed = usePages(PATH, { agent, contact, needs_person: true, limit: FIRST_FAILED }, { events: TYPES });
  const messages = useMessages(filters);
  const waiting = failed.data ?? [];
  const shown = [...waiting, ...messages.rows];
  const agents = useAgentsOf(shown);
  const rows = useRows({
    ids: [...new Set(shown.map(({ id }) => id))],
    open: (id) => navigate(threadOf(shown.find((one) => one.id === id))),
    name: "message",
  });
  const withWaiting = (action) => () => waiting.some(({ id }) => id === rows.selected) && act(action, failed.reload, [rows.selected])();
  useKeys({
    s: { help: "Send the message again", run: withWaiting("send") },
    d: { help: "Dismiss the message", run: withWaiting("dismiss") },
  });
  return html`<${Page} title="Messages">
    <${Filters} filters=${filters} />
    <${Failed} failed=${failed} agents=${agents} rows=${rows} isAll=${!agent && !contact} />
    <${Loaded} of=${messages} empty=${NONE}>${() => html`<${List} messages=${messages} agents=${agents} rows=${rows} />`}<//>
  <//>`;
};
