// Event webhooks: addresses that are told what happens, and what was delivered to them.
import { html, useState } from "../../lib.js";
import { isAdmin, post } from "../../core/api.js";
import { useKeys } from "../../core/keys.js";
import { useGet } from "../../core/live.js";
import { navigate, query, setQuery } from "../../core/router.js";
import { Instant, Relative } from "../../core/words.js";
import { AdminNote, DeleteButton, NewResource, OnceDialog, ResourceForm, ResourceList } from "../../ui/resources.js";
import { Badge, Button, ConfirmButton, Dialog, Empty, JsonView, Line, Loaded, Page, Tabs, Text, toast } from "../../ui/ui.js";

// Deliveries: what was sent to webhooks, what came back, and when the next attempt is.

const DELIVERIES = "/api/organizations/webhook-deliveries/";
const TONES = { pending: "warn", delivered: "good", failed: "bad" };
const EVERY_SECONDS = 3; // attempts have no events of their own

const answer = ({ last_status: status, last_error: error }) => [status, error].filter(Boolean).join(" ") || "–";

const Redeliver = ({ row, reload }) => html`<${Button} kind="quiet" run=${async () => {
  await post(`${DELIVERIES}${row.id}/redeliver/`);
  toast("It is sent again.");
  reload();
}}>Send again<//>`; // prettier-ignore

const deliveryColumns = (reload) => [
  { title: "Event", cell: (row) => html`<button class="quiet" onClick=${() => setQuery({ delivery: row.id })}>${row.type}</button>` },
  { title: "At", cell: (row) => html`<${Instant} at=${row.created_at} />` },
  { title: "Status", cell: ({ status }) => html`<${Badge} tone=${TONES[status]}>${status}<//>` },
  { title: "Attempts", number: true, cell: (row) => row.attempts },
  { title: "Last response", cell: (row) => html`<${Line} value=${answer(row)} max=${48} />` },
  { title: "Next attempt", cell: (row) => (row.next_attempt_at ? html`<${Relative} at=${row.next_attempt_at} />` : "–") },
  { title: "To", cell: (row) => html`<${Line} value=${row.url} max=${50} />` },
  { title: "Actions", cell: (row) => html`<${Redeliver} row=${row} reload=${reload} />` },
];

const Whole = ({ id }) => {
  const delivery = useGet(`${DELIVERIES}${encodeURIComponent(id)}/`);
  return html`<${Dialog} title="Delivery" close=${() => setQuery({ delivery: null })} wide>
    <${Loaded} of=${delivery}>
      ${(data) => html`<dl class="facts">
          <dt>Status</dt><dd><${Badge} tone=${TONES[data.status]}>${data.status}<//> after ${data.attempts} attempts</dd>
          <dt>Address</dt><dd><${Text} value=${data.url} /></dd>
          <dt>Last response</dt><dd><${Text} value=${answer(data)} /></dd>
          <dt>Delivered</dt><dd><${Instant} at=${data.delivered_at} style="full" /></dd>
        </dl>
        <${JsonView} value=${data.payload} />`}
    <//>
  <//>`;
};

const EMPTY = html`<${Empty} title="There are no such deliveries"><p>Each event that a webhook asks for appears here. "Send a test" sends one at once.</p><//>`;

/** Show the deliveries to a webhook, or all of them. */
export const Deliveries = ({ webhook }) => {
  const { status, delivery } = query.value;
  const shown = webhook ? (reload) => deliveryColumns(reload).filter(({ title }) => title !== "To") : deliveryColumns;
  return html`<div class="actions resource-choice" role="group" aria-label="Status">
      ${["", ...Object.keys(TONES)].map(
        (one) => html`<button class="quiet" aria-pressed=${one === (status ?? "")} onClick=${() => setQuery({ status: one })}>${one || "all"}</button>`,
      )}
    </div>
    <${ResourceList} key=${status} path=${DELIVERIES} filters=${{ webhook, status }} columns=${shown} label="Deliveries" empty=${EMPTY} events=${["*"]} every=${EVERY_SECONDS} />
    ${delivery && html`<${Whole} id=${delivery} />`}`;
};

const PATH = "/api/organizations/webhooks/";
const HOME = "/console/webhooks";
const EVENTS = ["webhook.*"];
const FAMILIES = ["*", "agent.*", "run.*", "notification.*", "message.*", "budget.*", "webhook.*", "hook.*", "schedule.*", "approval.*", "organization.*"];

const Health = ({ webhook }) => {
  const { is_active: isActive, disabled_at: disabledAt, failing_since: failingSince } = webhook;
  if (disabledAt) return html`<${Badge} tone="bad">switched off by the service <${Relative} at=${disabledAt} /><//>`;
  if (!isActive) return html`<${Badge}>off<//>`;
  if (failingSince) return html`<${Badge} tone="bad">failing since <${Instant} at=${failingSince} /><//>`;
  return html`<${Badge} tone="good">on<//>`;
};

const columns = () => [
  { title: "Address", cell: ({ id, url }) => html`<a href="${HOME}/${id}"><${Line} value=${url} max=${70} /></a>` },
  { title: "Events", cell: ({ types }) => html`<${Line} value=${types.join(", ")} max=${60} />` },
  { title: "Description", cell: ({ description }) => html`<${Line} value=${description} max=${60} />` },
  { title: "Health", cell: (row) => html`<${Health} webhook=${row} />` },
];

const groups = [
  {
    fields: [
      { name: "url", label: "Address", required: true, maxlength: 500, help: "Gets each event as a signed POST request." },
      { name: "description", label: "Description", maxlength: 255 },
      {
        name: "types",
        label: "Events",
        type: "list",
        rows: 3,
        from: (one) => (one?.types ?? ["run.*"]).join("\n"),
        help: `One a line: a type such as run.ended, or a family: ${FAMILIES.join(" ")}`,
      },
      { name: "agent", label: "Only about this agent", nullable: true, help: "Its id. Blank: about all." },
      { name: "template", label: "Only about agents of this template", nullable: true, help: "Its id. Blank: of any." },
      { name: "tag", label: "Only about agents with this tag", maxlength: 255 },
    ],
  },
  { fields: [{ name: "is_active", label: "On", type: "checkbox", from: (one) => one?.is_active ?? true }] },
];

const Secret = ({ text, close, children }) => html`<${OnceDialog} title="The secret of the webhook" text=${text} close=${close}>
  It signs every request, so that the receiver knows who sent it. This is the only time that it can be read. ${children}
<//>`;

const Lists = () => {
  useKeys({ n: { help: "New webhook", run: () => navigate(`${HOME}/new`) } });
  const tab = query.value.tab === "deliveries" ? "deliveries" : "webhooks";
  const tabs = [
    { id: "webhooks", label: "Webhooks", href: HOME },
    { id: "deliveries", label: "All deliveries", href: `${HOME}?tab=deliveries` },
  ];
  const create = isAdmin.value && html`<a class="button primary" href="${HOME}/new">New webhook</a>`;
  const empty = html`<${Empty} title="There is no webhook yet"><p>A webhook tells a program of yours what happens, such as the end of each run.</p>${create}<//>`;
  return html`<${Page} title="Webhooks" actions=${create}>
    <${Tabs} tabs=${tabs} current=${tab} label="Parts of this page" />
    ${tab === "deliveries"
      ? html`<${Deliveries} />`
      : isAdmin.value
        ? html`<${ResourceList} path=${PATH} columns=${columns} text=${({ url, description }) => `${url} ${description}`} open=${({ id }) => `${HOME}/${id}`} label="Webhooks" empty=${empty} events=${EVENTS} />`
        : html`<${AdminNote}>Only admins and owners see and change webhooks.<//>`}
  <//>`;
};

const New = () => {
  const [made, setMade] = useState(null);
  const close = () => navigate(`${HOME}/${made.id}`, { replace: true });
  const note = html`<${AdminNote}>Only admins and owners create webhooks.<//>`;
  return html`<${NewResource} title="New webhook" home=${HOME} path=${PATH} groups=${groups} note=${note} saved=${setMade}>
    ${made && html`<${Secret} text=${made.secret} close=${close} />`}
  <//>`;
};

const Actions = ({ id, isOn, reload, onTest }) => {
  const [rotated, setRotated] = useState(null);
  const test = async () => {
    await post(`${PATH}${id}/test/`);
    toast("The test is on its way; see its delivery.");
    onTest();
  };
  return html`<${Button} run=${test} disabled=${!isOn} title=${isOn ? undefined : "Switch it on first"}>Send a test<//>
    <${ConfirmButton} question="The old secret stays valid for a day." run=${async () => setRotated(await post(`${PATH}${id}/rotate/`))}>Rotate secret<//>
    <${DeleteButton} path="${PATH}${id}/" question="Its pending deliveries fail." done=${() => navigate(HOME)} />
    ${rotated &&
    html`<${Secret} text=${rotated.secret} close=${() => (setRotated(null), reload())}>Until <${Instant} at=${rotated.old_secret_until} style="full" /> the old one signs the same requests, too.<//>`}`;
};

const Detail = ({ id }) => {
  const webhook = useGet(`${PATH}${encodeURIComponent(id)}/`, {}, { events: EVENTS, every: 15 });
  const [tests, setTests] = useState(0);
  const name = webhook.data?.url ?? "Webhook";
  const tab = query.value.tab === "settings" ? "settings" : "deliveries";
  const tabs = [
    { id: "deliveries", label: "Deliveries", href: `${HOME}/${id}` },
    { id: "settings", label: "Settings", href: `${HOME}/${id}?tab=settings` },
  ];
  const actions = webhook.data && html`<${Actions} id=${id} isOn=${webhook.data.is_active} reload=${webhook.reload} onTest=${() => setTests(tests + 1)} />`;
  return html`<${Page} title=${name} actions=${actions}>
    <${Loaded} of=${webhook}>
      ${(data) => html`<p class="actions"><${Health} webhook=${data} /> <span class="muted">${data.types.join(", ")}</span></p>
        ${data.disabled_reason && html`<${Text} value=${data.disabled_reason} />`}
        <${Tabs} tabs=${tabs} current=${tab} label="Parts of the webhook" />
        ${tab === "deliveries"
          ? html`<${Deliveries} key=${tests} webhook=${id} />`
          : html`<section class="card"><${ResourceForm} path=${PATH} resource=${data} groups=${groups} saved=${webhook.reload} /></section>`}`}
    <//>
  <//>`;
};

/** Show the webhooks, one of them, or the form for a new one. */
export default function Webhooks({ id }) {
  if (id === "new") return html`<${New} />`;
  return id ? html`<${Detail} id=${id} key=${id} />` : html`<${Lists} />`;
}
