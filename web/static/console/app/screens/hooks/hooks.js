// Inbound hooks: addresses at which other services deliver events to agents, and their last deliveries.
import { html, useState } from "../../lib.js";
import { isAdmin, post } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useGet } from "../../core/live.js";
import { navigate, query } from "../../core/router.js";
import { Instant } from "../../core/words.js";
import { AdminNote, DeleteButton, NewResource, OnceDialog, ResourceForm, ResourceList } from "../../ui/resources.js";
import { Badge, CopyButton, Dialog, Empty, Field, Form, Line, Loaded, Page, Table, Tabs, Text } from "../../ui/ui.js";

const PATH = "/api/organizations/hooks/";
const HOME = "/console/hooks";
const EVENTS = ["hook.*", "notification.created"];
const TONES = { accepted: "good", refused: "bad" };
const TEST = { test: true };

const options = (...values) => values.map((one) => [one, one]);
const Address = ({ hook }) => {
  const text = `${location.origin}${hook.path}${hook.verify === "token" ? "<secret>/" : ""}`;
  return html`<dl class="facts"><dt>Address</dt><dd><${Text} value=${text} /> <${CopyButton} text=${text} label="Copy address" /></dd></dl>`;
};

const columns = () => [
  { title: "Name", cell: ({ id, name }) => html`<a href="${HOME}/${id}"><${Line} value=${name} max=${60} /></a>` },
  { title: "Sender", cell: ({ verify }) => verify },
  { title: "Title", cell: ({ title }) => html`<${Line} value=${title} max=${70} />` },
];

const groups = [
  {
    fields: [
      { name: "name", label: "Name", required: true, maxlength: 255 },
      { name: "agent", label: "Agent", nullable: true, help: "The id of the agent that each delivery wakes." },
      { name: "template", label: "Or template", nullable: true, help: "Its id: each delivery creates an agent from it." },
      {
        name: "verify",
        label: "Sender",
        type: "select",
        options: options("github", "stripe", "slack", "standard", "hmac", "token"),
        help: "Who signs, and so how. standard: Standard Webhooks. token: the secret is part of the address.",
      },
      { name: "secret", label: "Secret", nullable: true, help: "If the sender makes it. Blank: a new one, or the present one. The one before stays valid for a day." },
    ],
  },
  {
    title: "The notification",
    fields: [
      { name: "title", label: "Title", required: true, maxlength: 1000, help: "{{ pull_request.title }} stands for a value of the payload." },
      { name: "body", label: "Details", type: "textarea", maxlength: 8192 },
      { name: "priority", label: "Priority", type: "select", options: options("high", "low"), help: "Only a high one wakes the agent." },
      {
        name: "only_if",
        label: "Only if",
        type: "json",
        rows: 4,
        from: (one) => (one?.only_if ? JSON.stringify(one.only_if, null, 2) : ""),
        help: "A JSON Schema. What does not fit is ignored. Blank: everything is taken.",
      },
    ],
  },
  {
    title: "For hmac",
    fields: [
      { name: "header", label: "Header of the signature", from: (one) => one?.header ?? "X-Signature" },
      { name: "algorithm", label: "Algorithm", type: "select", options: options("sha256", "sha512", "sha1") },
      { name: "encoding", label: "Encoding", type: "select", options: options("hex", "base64") },
      { name: "prefix", label: "Before the signature", maxlength: 64 },
    ],
  },
];

const deliveryColumns = [
  { title: "At", cell: ({ created_at: at }) => html`<${Instant} at=${at} />` },
  { title: "Outcome", cell: ({ outcome }) => html`<${Badge} tone=${TONES[outcome]}>${outcome}<//>` },
  { title: "Reason", cell: ({ error }) => html`<${Line} value=${error || "–"} max=${120} />` },
  { title: "Agent", cell: ({ agent }) => (agent ? html`<a href="/console/agents/${agent}">its agent</a>` : "–") },
];

const Deliveries = ({ id }) => {
  const deliveries = useGet(`${PATH}${encodeURIComponent(id)}/deliveries/`, {}, { events: EVENTS, every: 15 });
  const empty = html`<${Empty} title="Nothing was delivered yet"><p>"Send a test" handles a payload as if it had been delivered.</p><//>`;
  return html`<${Loaded} of=${deliveries} empty=${empty}>
    ${(rows) => html`<${Table} columns=${deliveryColumns} rows=${rows} label="Deliveries" />`}
  <//>`;
};

const Test = ({ id, close }) => {
  const [result, setResult] = useState(null);
  const save = async (values) => setResult(await post(`${PATH}${id}/test/`, values));
  return html`<${Dialog} title="Send a test" close=${close} wide>
    <p>The payload is handled as if it had been delivered. Its notification may wake the agent.</p>
    <${Form} save=${save} submit="Send">
      <${Field} name="payload" label="Payload" type="json" rows=${8} value=${JSON.stringify(TEST)} />
    <//>
    ${result && html`<div role="status"><dl class="facts">
      <dt>Outcome</dt><dd><${Badge} tone=${TONES[result.outcome]}>${result.outcome}<//></dd>
      ${result.error && html`<dt>Reason</dt><dd><${Text} value=${result.error} /></dd>`}
    </dl></div>`}
  <//>`;
};

const List = () => {
  useKeys({ n: { help: "New hook", run: () => navigate(`${HOME}/new`) } });
  const create = isAdmin.value && html`<a class="button primary" href="${HOME}/new">New hook</a>`;
  const empty = html`<${Empty} title="There is no hook yet"><p>A hook lets GitHub, Stripe or another service wake an agent.</p>${create}<//>`;
  return html`<${Page} title="Hooks" actions=${create}>
    ${isAdmin.value
      ? html`<${ResourceList} path=${PATH} columns=${columns} text=${({ name, title }) => `${name} ${title}`} open=${({ id }) => `${HOME}/${id}`} label="Hooks" empty=${empty} />`
      : html`<${AdminNote}>Only admins and owners see and change hooks.<//>`}
  <//>`;
};

const New = () => {
  const [made, setMade] = useState(null);
  const note = html`<${AdminNote}>Only admins and owners create hooks.<//>`;
  return html`<${NewResource} title="New hook" home=${HOME} path=${PATH} groups=${groups} note=${note} saved=${setMade}>
    ${made &&
    html`<${OnceDialog} title="The secret of the hook" text=${made.secret} close=${() => navigate(`${HOME}/${made.id}`, { replace: true })}>
      Give it to the sender, together with the address on the next page. This is the only time that it can be read.
    <//>`}
  <//>`;
};

const Detail = ({ id }) => {
  const hook = useGet(`${PATH}${encodeURIComponent(id)}/`);
  const [isTesting, setTesting] = useState(false);
  const tab = query.value.tab === "settings" ? "settings" : "deliveries";
  const tabs = [
    { id: "deliveries", label: "Deliveries", href: `${HOME}/${id}` },
    { id: "settings", label: "Settings", href: `${HOME}/${id}?tab=settings` },
  ];
  const actions = hook.data && html`<button onClick=${() => setTesting(true)}>Send a test</button>
    <${DeleteButton} path="${PATH}${id}/" question="Deliveries to it are refused from then on." done=${() => navigate(HOME)} />`;
  return html`<${Page} title=${hook.data?.name ?? "Hook"} actions=${actions}>
    <${Loaded} of=${hook}>
      ${(data) => html`<p class="muted">${data.verify}</p>
        <${Address} hook=${data} />
        <${Tabs} tabs=${tabs} current=${tab} label="Parts of the hook" />
        ${tab === "deliveries"
          ? html`<${Deliveries} id=${id} key=${isTesting} />`
          : html`<section class="card"><${ResourceForm} path=${PATH} resource=${data} groups=${groups} saved=${hook.reload} /></section>`}`}
    <//>
    ${isTesting && html`<${Test} id=${id} close=${() => setTesting(false)} />`}
  <//>`;
};

/** Show the hooks, one of them, or the form for a new one. */
export default function Hooks({ id }) {
  if (id === "new") return html`<${New} />`;
  return id ? html`<${Detail} id=${id} key=${id} />` : html`<${List} />`;
}
