// The queue of an agent: what waits, what falls due later, and what was cleared; and a way to send it something.
import { html, useState } from "../../lib.js";
import { del, patch, post } from "../../core/api.js";
import { usePages } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { Instant, Relative, reminderHint, sourceWord } from "../../core/words.js";
import { Badge, Button, ConfirmButton, Dialog, Field, Form, Line, Loaded, Text, toast } from "../../ui/ui.js";

const NOTIFICATIONS = "/api/defaults/notifications/";
const EVENTS = ["notification.*"];

const clear = async (agent, one) => {
  await post(`${NOTIFICATIONS}clear/`, { agent: agent.id, ids: [one.id] });
  toast("Cleared.", { undo: () => patch(`${NOTIFICATIONS}${one.id}/`, { cleared: false }) });
};

const When = ({ agent, one }) => {
  if (one.cleared_at) return html`cleared <${Instant} at=${one.cleared_at} zone=${agent.timezone} />`;
  const at = one.scheduled_for ?? one.created_at;
  return html`<${Instant} at=${at} zone=${agent.timezone} /> · <${Relative} at=${at} />`;
};

const Row = ({ agent, one }) => html`<li class="agent-item">
  <details>
    <summary>
      <${Badge} tone=${one.priority === "high" && !one.cleared ? "warn" : ""}>${one.priority}<//>
      <span class="agent-item-title"><${Line} value=${one.title} /></span>
      <small>${sourceWord(one.source)} · <${When} agent=${agent} one=${one} /></small>
    </summary>
    ${one.body ? html`<${Text} value=${one.body} />` : html`<p class="muted">It has no text.</p>`}
  </details>
  <span class="actions">
    ${!one.cleared && html`<${Button} run=${() => clear(agent, one)}>Clear<//>`}
    <${ConfirmButton} question="Delete it for ever?" kind="quiet" run=${() => del(`${NOTIFICATIONS}${one.id}/`)}>Delete<//>
  </span>
</li>`;

const Part = ({ agent, title, none, list, resource }) => html`<h3>${title}</h3>
  ${list.length
    ? html`<ul class="agent-items">${list.map((one) => html`<${Row} key=${one.id} agent=${agent} one=${one} />`)}</ul>`
    : html`<p class="muted">${none}</p>`}
  ${resource.hasMore && html`<p><button class="quiet" onClick=${resource.more}>Show more</button></p>`}`;

const SENDER = "hostsvc.sender"; // the last one of this browser; a guess would be the number of a stranger

const TextForm = ({ agent }) => {
  const send = async ({ from, body }) => {
    await post("/api/defaults/messages/", { agent: agent.id, from, channel: "sms", direction: "inbound", body });
    localStorage.setItem(SENDER, from);
    document.querySelector(".agent-send [name=body]").value = "";
    toast("Sent. The sentence above says what the agent does now.");
  };
  return html`<div class="agent-send">
    <${Form} save=${send} submit="Send it a text">
      <${Field} label="From" name="from" value=${localStorage.getItem(SENDER) ?? ""} placeholder="Your phone number" title="The agent's answer goes to this number." required />
      <${Field} label="Text" name="body" required />
    <//>
  </div>`;
};

const NewNotification = ({ agent, close }) => {
  const [hint, setHint] = useState(null);
  const save = async (values) => {
    const urgent = values.priority === "urgent";
    await post(NOTIFICATIONS, { agent: agent.id, ...values, ...(urgent && { priority: "high", urgent }) });
    close();
    toast("The notification is in its queue.");
  };
  const priorities = [["high", "high: wakes it"], ["urgent", "urgent: wakes it whatever its limits"], ["low", "low: waits until it is awake"]];
  return html`<${Dialog} title="New notification" close=${close}>
    <${Form} save=${save} submit="Add" onInput=${({ priority, scheduled_for: at }) => setHint(reminderHint(priority, at))}>
      <${Field} label="Title" name="title" required />
      <${Field} label="Text" name="body" type="textarea" />
      <${Field} label="Priority" name="priority" type="select" options=${priorities} value="high" />
      <${Field} label="Due" name="scheduled_for" type="datetime" help=${`Such as 2026-11-24 09:00, in ${agent.timezone}. Empty: at once.`} />
      <p class="hint" role="status">${hint}</p>
    <//>
  <//>`;
};

const isAhead = (one) => Date.parse(one.scheduled_for) > Date.now();
const waitingOf = (list) => list.filter((one) => !isAhead(one)).sort((a, b) => (a.priority > b.priority) - (a.priority < b.priority));
const aheadOf = (list) => list.filter(isAhead).sort((a, b) => Date.parse(a.scheduled_for) - Date.parse(b.scheduled_for));

/** Show the queue of an agent. */
export default ({ agent }) => {
  const options = { events: EVENTS, agent: agent.id };
  const own = (rest) => ({ agent: agent.id, limit: 50, ...rest });
  const [opened] = useState(() => new Date().toISOString());
  const uncleared = usePages(NOTIFICATIONS, own({ cleared: false }), options);
  const reminders = usePages(NOTIFICATIONS, own({ cleared: false, scheduled_after: opened }), options);
  const cleared = usePages(NOTIFICATIONS, own({ cleared: true }), options);
  const clearAll = () => post(`${NOTIFICATIONS}clear/`, { agent: agent.id });
  return html`<div class="stack">
    <${TextForm} agent=${agent} />
    <div class="actions">
      <button onClick=${() => setQuery({ new: "notification" })}>New notification</button>
      <${ConfirmButton} question="Clear all that wait?" run=${clearAll}>Clear all<//>
    </div>
    ${query.value.new && html`<${NewNotification} agent=${agent} close=${() => setQuery({ new: null })} />`}
    <${Loaded} of=${uncleared}>
      ${(list) => html`<${Part} agent=${agent} title="Waiting" none="Nothing waits." list=${waitingOf(list)} resource=${uncleared} />`}
    <//>
    <${Loaded} of=${reminders}>
      ${(list) => html`<${Part} agent=${agent} title="Reminders ahead" none="No reminder is set." list=${aheadOf(list)} resource=${reminders} />`}
    <//>
    <${Loaded} of=${cleared}>
      ${(list) => html`<${Part} agent=${agent} title="Cleared" none="Nothing was cleared yet." list=${list} resource=${cleared} />`}
    <//>
  </div>`;
};
