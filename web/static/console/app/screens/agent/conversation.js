// The messages of an agent by contact: who wrote, the thread in time, and the contact itself.
import { html } from "../../lib.js";
import { get, send } from "../../core/api.js";
import { usePages, useResource } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { Instant, plural, safeUrl, sourceWord } from "../../core/words.js";
import { Badge, Button, Empty, Line, Loaded, saveFile, Text } from "../../ui/ui.js";

const MESSAGES = "/api/defaults/messages/";
const CONTACTS = "/api/defaults/contacts/";
const UNKNOWN = "unknown";
const EVENTS = ["message.*"];
const MAX_NAMED = 50;

/** Read the agent's contacts and its last messages: `[{id, contact, last, count}]`, latest first. */
const readPeople = async (agent, signal) => {
  const [messages, own] = await Promise.all([
    get(MESSAGES, { agent: agent.id, limit: 200 }, signal),
    get(CONTACTS, { agent: agent.id, limit: 200 }, signal),
  ]);
  const people = new Map();
  for (const message of messages) {
    const id = message.contact ?? UNKNOWN;
    if (!people.has(id)) people.set(id, { id, last: message, contact: null, unnamed: [] });
    if (id === UNKNOWN) people.get(id).unnamed.push(message);
  }
  for (const contact of own) people.set(contact.id, { last: null, ...people.get(contact.id), id: contact.id, contact });
  const missing = [...people.values()].filter(({ id, contact }) => !contact && id !== UNKNOWN).slice(0, MAX_NAMED);
  await Promise.all(
    missing.map(async (one) => {
      one.contact = await get(`${CONTACTS}${one.id}/`, {}, signal).catch(() => null);
    }),
  );
  return [...people.values()].sort((a, b) => (b.last?.created_at ?? "").localeCompare(a.last?.created_at ?? ""));
};

const nameOf = ({ id, contact, last }) =>
  id === UNKNOWN ? "Unknown senders" : contact?.name || contact?.phone || contact?.email || last?.address || "Deleted contact";

const download = async ({ url, name }) => {
  const response = await send("GET", url, { headers: { Accept: "*/*" } });
  if (!response.ok) throw new Error("The file cannot be read. It may have been deleted.");
  saveFile(await response.blob(), name || "attachment");
};

const Attachment = ({ file }) => {
  const name = html`<${Line} value=${file.name || file.url} max=${80} />`;
  if (file.id) return html`<${Button} run=${() => download(file)}>↓ ${name} <small>${plural(file.size, "byte")}</small><//>`;
  const url = safeUrl(file.url);
  return url ? html`<a class="button" href=${url} target="_blank" rel="noreferrer noopener">${name} ↗</a>` : name;
};

const Message = ({ message, zone }) => html`<li class="conversation-message conversation-${message.direction}">
  ${message.subject && html`<strong><${Line} value=${message.subject} /></strong>`}
  ${message.body && html`<${Text} value=${message.body} />`}
  ${message.attachments.length > 0 && html`<div class="actions">${message.attachments.map((file) => html`<${Attachment} file=${file} />`)}</div>`}
  <small>
    ${message.direction === "inbound" ? "in" : "out"} by ${sourceWord(message.channel)} · <${Instant} at=${message.created_at} zone=${zone} />${" "}
    <${Badge} tone=${message.status === "failed" ? "bad" : ""}>${message.status === "failed" ? "not sent" : message.status}<//>
    ${message.error && html` <span class="error"><${Line} value=${message.error} max=${200} /></span>`}
    ${message.contact === null && message.address && html` · <${Line} value=${message.address} max=${60} />`}
  </small>
</li>`;

const Messages = ({ messages, zone, more }) => html`
  ${more && html`<${Button} kind="quiet" run=${more}>Earlier messages<//>`}
  <ol class="conversation-messages" tabindex="0" aria-label="Messages">
    ${[...messages].reverse().map((message) => html`<${Message} key=${message.id} message=${message} zone=${zone} />`)}
  </ol>`;

const Head = ({ person }) => {
  const { contact } = person;
  const addresses = contact ? [contact.phone, contact.email, ...contact.other_addresses].filter(Boolean) : [];
  return html`<header class="split">
    <div>
      <h2><${Line} value=${nameOf(person)} max=${80} /></h2>
      ${addresses.length > 0 && html`<small>${addresses.map((one, index) => html`${index > 0 && " · "}<${Line} value=${one} max=${60} />`)}</small>`}
    </div>
    ${contact && html`<a class="button" href="/console/contacts/${contact.id}">Edit contact</a>`}
  </header>`;
};

const Thread = ({ agent, person }) => {
  const wanted = { agent: agent.id, contact: person.id, limit: 50 };
  const pages = usePages(MESSAGES, wanted, { events: EVENTS, agent: agent.id });
  const empty = html`<${Empty} title="No messages yet"><p>Messages with this contact appear here as they come.</p><//>`;
  return html`<${Loaded} of=${pages} empty=${empty}>
    ${(messages) => html`<${Messages} messages=${messages} zone=${agent.timezone} more=${pages.hasMore && pages.more} />`}
  <//>`;
};

const Person = ({ person, isChosen, zone }) => {
  const { last } = person;
  return html`<li>
    <button type="button" aria-current=${isChosen ? "true" : undefined} onClick=${() => setQuery({ contact: person.id })}>
      <span class="split"><strong><${Line} value=${nameOf(person)} max=${40} /></strong> ${last && html`<small><${Instant} at=${last.created_at} zone=${zone} /></small>`}</span>
      <small><${Line} value=${last ? last.subject || last.body || plural(last.attachments.length, "attachment") : "no messages"} max=${80} /></small>
    </button>
  </li>`;
};

const NOBODY = html`<${Empty} title="Nobody has written yet">
  <p>What people write to the agent and what it answers appears here. Begin with a text from you: under Queue, <b>Send it a text</b>. A gateway sends them with POST /api/defaults/messages/.</p>
<//>`;

/** Show the conversations of an agent. */
export default ({ agent }) => {
  const people = useResource((signal) => readPeople(agent, signal), [agent.id], { events: EVENTS, agent: agent.id });
  return html`<${Loaded} of=${people} empty=${NOBODY}>
    ${(all) => {
      const person = all.find(({ id }) => id === query.value.contact) ?? all[0];
      return html`<div class="conversation">
        <nav class="card" aria-label="Contacts">
          <ul>${all.map((one) => html`<${Person} key=${one.id} person=${one} isChosen=${one === person} zone=${agent.timezone} />`)}</ul>
        </nav>
        <section class="card" aria-label="Thread">
          <${Head} key=${person.id} person=${person} />
          ${person.id === UNKNOWN
            ? html`<${Messages} messages=${person.unnamed} zone=${agent.timezone} />`
            : html`<${Thread} key=${person.id} agent=${agent} person=${person} />`}
        </section>
      </div>`;
    }}
  <//>`;
};
