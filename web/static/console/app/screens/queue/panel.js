// One notification: what it says, and what can be done with it.
import { html, useState } from "../../lib.js";
import { del, get, patch } from "../../core/api.js";
import { useResource } from "../../core/resource.js";
import { sourceWord } from "../../core/words.js";
import { Button, ConfirmButton, Instant, Line, Loaded, Relative, Text, toast } from "../../ui/ui.js";
import { MomentField, toInstant, zoneWords } from "./moments.js";

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
  const [text, setText] = useState("");
  const set = async (at) => {
    await change(notification, { scheduled_for: at }, at ? "It has another time." : "It has no time any more: it is due.", done);
    setOpen(false);
  };
  if (!isOpen) return html`<button onClick=${() => setOpen(true)}>Reschedule</button>`;
  return html`<span class="confirm" role="group" aria-label="Reschedule">
    <${MomentField} label="Due at (${zoneWords()})" value=${notification.scheduled_for} onInput=${(event) => setText(event.target.value)} />
    <${Button} kind="primary" disabled=${!toInstant(text)} run=${() => set(toInstant(text))}>Set<//>
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
