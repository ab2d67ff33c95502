// What needs a person: a sentence, since when, the place, and the action that helps.
import { html } from "../../lib.js";
import { patch, post } from "../../core/api.js";
import { query, setQuery } from "../../core/router.js";
import { isAdmin, organization } from "../../core/session.js";
import { plural } from "../../core/words.js";
import { Button, ConfirmButton, Line, Relative, Sentence, toast } from "../../ui/ui.js";

const FEW = 5;
const KINDS = {
  degraded: { word: "service", tone: "bad" },
  paused: { word: "paused", tone: "warn", plural: "paused organizations" },
  forgotten: { word: "forgotten", tone: "bad", plural: "forgotten agents" },
  quarantined: { word: "quarantined", tone: "bad", plural: "agents in quarantine", all: "/console/agents?phase=quarantined" },
  over_budget: { word: "over budget", tone: "warn", plural: "agents over budget", all: "/console/agents?phase=over_budget" },
  uncleared_high: { word: "waiting", tone: "warn", plural: "agents with waiting notifications", all: "/console/agents?sort=-uncleared_high" },
  failing_webhook: { word: "webhook", tone: "bad", plural: "failing webhooks", all: "/console/webhooks" },
};

const startRun = async (id) => {
  await post(`/api/cloud/agents/${id}/run/`);
  toast("A run was requested.");
};

const endPause = async (id) => {
  await patch(`/api/organizations/organizations/${id}/`, { paused: false });
  toast("The pause has ended.");
};

const isChosen = (item) => item.organization === organization.value?.id;

const places = {
  over_budget: ({ agent }) => [`/console/agents/${agent}/settings`, "Raise the cap"],
  uncleared_high: ({ agent }) => [`/console/agents/${agent}/queue`, "Open the queue"],
  failing_webhook: ({ webhook }) => [`/console/webhooks/${webhook}`, "Open the webhook"],
};

const Help = ({ item, reload }) => {
  const [href, label] = item.place ?? places[item.kind]?.(item) ?? [];
  const act = (run) => async () => (await run(item.agent ?? item.organization), reload());
  if (href) return html`<a class="button" href=${href}>${label}</a>`;
  if (!isChosen(item)) return null;
  if (item.agent) return html`<${Button} run=${act(startRun)}>Start it now<//>`;
  if (!isAdmin.value) return null;
  return html`<${ConfirmButton} question="All its agents may start." run=${act(endPause)}>End the pause<//>`;
};

const Item = ({ item, reload }) => {
  const { word, tone } = KINDS[item.kind];
  const href = item.href ?? `/console/agents/${item.agent}`;
  return html`<li class="now-item now-${tone}">
    <div class="now-what">
      <p class="now-who">
        ${item.agent && html`<a href=${href}><${Line} value=${item.agent_name} max=${80} /></a>`}
        <span class="badge ${tone}">${word}</span>
        ${item.since && html`<small><${Relative} at=${item.since} /></small>`}
      </p>
      <p><${Sentence} text=${item.sentence} zone=${item.timezone} /></p>
    </div>
    <div class="now-help"><${Help} item=${item} reload=${reload} /></div>
  </li>`;
};

const Kind = ({ kind, items, total, reload }) => {
  const opened = [query.value.open ?? []].flat();
  const isOpen = opened.includes(kind);
  const shown = isOpen ? items : items.slice(0, FEW);
  const { plural: words, all } = KINDS[kind];
  return html`
    ${shown.map((item) => html`<${Item} key=${item.agent ?? item.webhook ?? item.sentence} item=${item} reload=${reload} />`)}
    ${total > shown.length &&
    html`<li class="now-more">
      ${plural(total - shown.length, "other")} of ${total.toLocaleString("en")} ${words}
      ${items.length > shown.length && html`<button class="quiet" onClick=${() => setQuery({ open: [...opened, kind] })}>Show ${items.length - shown.length} more</button>`}
      ${all && items.length < total && html`<a href=${all}>List all</a>`}
    </li>`}
  `;
};

/** Show the items by kind, in the order in which they come; `counts` has the number of each kind. */
export const Attention = ({ items, counts, reload }) => {
  const kinds = [...new Set(items.map((item) => item.kind))];
  return html`<ul class="now-items">
    ${kinds.map((kind) => {
      const own = items.filter((item) => item.kind === kind);
      return html`<${Kind} key=${kind} kind=${kind} items=${own} total=${counts[kind] ?? own.length} reload=${reload} />`;
    })}
  </ul>`;
};
