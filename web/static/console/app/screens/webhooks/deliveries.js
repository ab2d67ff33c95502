// Deliveries: what was sent to webhooks, what came back, and when the next attempt is.
import { html } from "../../lib.js";
import { post } from "../../core/api.js";
import { useGet } from "../../core/resource.js";
import { query, setQuery } from "../../core/router.js";
import { ResourceList } from "../../ui/resources.js";
import { Badge, Button, Dialog, Empty, Instant, JsonView, Line, Loaded, Relative, Text, toast } from "../../ui/ui.js";

const PATH = "/api/organizations/webhook-deliveries/";
const TONES = { pending: "warn", delivered: "good", failed: "bad" };
const EVERY_SECONDS = 3; // attempts have no events of their own

const answer = ({ last_status: status, last_error: error }) => [status, error].filter(Boolean).join(" ") || "–";

const Redeliver = ({ row, reload }) => html`<${Button} kind="quiet" run=${async () => {
  await post(`${PATH}${row.id}/redeliver/`);
  toast("It is sent again.");
  reload();
}}>Send again<//>`; // prettier-ignore

const columns = (reload) => [
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
  const delivery = useGet(`${PATH}${encodeURIComponent(id)}/`);
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
  const shown = webhook ? (reload) => columns(reload).filter(({ title }) => title !== "To") : columns;
  return html`<div class="actions resource-choice" role="group" aria-label="Status">
      ${["", ...Object.keys(TONES)].map(
        (one) => html`<button class="quiet" aria-pressed=${one === (status ?? "")} onClick=${() => setQuery({ status: one })}>${one || "all"}</button>`,
      )}
    </div>
    <${ResourceList} key=${status} path=${PATH} filters=${{ webhook, status }} columns=${shown} label="Deliveries" empty=${EMPTY} events=${["*"]} every=${EVERY_SECONDS} />
    ${delivery && html`<${Whole} id=${delivery} />`}`;
};
