// The first screen: how it is, what needs a person, and who wakes next.
import { html } from "../../lib.js";
import { get, isAdmin, isOperator, organization, patch, post, session } from "../../core/api.js";
import { live, useGet, useResource } from "../../core/live.js";
import { query, setQuery } from "../../core/router.js";
import { formatIn, formatInstant, Instant, now, plural, Relative, zoneName } from "../../core/words.js";
import { actOn, Button, Choice, ConfirmButton, Line, Loaded, Page, Phases, Sentence, toast } from "../../ui/ui.js";

// The wakes of the next 24 hours, hour by hour.

const HOUR = 3600_000;

/** Return the time zone that all agents share, or null. */
const sharedZone = (items) => {
  const zones = new Set(items.map((item) => item.timezone));
  return zones.size === 1 ? [...zones][0] : null;
};

const byHour = (items, name, moment) => {
  const hours = new Map();
  for (const item of items) {
    const key = Date.parse(item.at) <= moment ? "" : formatIn(item.at, name).slice(0, 13);
    hours.set(key, [...(hours.get(key) ?? []), item]);
  }
  return [...hours];
};

const hourWords = (key, name, moment) => {
  if (!key) return "Due now";
  const days = [formatIn(moment, name), formatIn(moment + 24 * HOUR, name)].map((text) => text.slice(0, 10));
  const word = ["Today", "Tomorrow"][days.indexOf(key.slice(0, 10))] ?? key.slice(0, 10);
  return `${word}, ${key.slice(11)}:00`;
};

const Wake = ({ item, zone }) => html`<li class="now-wake">
  <${Instant} at=${item.at} zone=${zone} style="time" />
  <div>
    <a href=${item.href ?? `/console/agents/${item.agent}`}><${Line} value=${item.agent_name} max=${60} /></a>
    <small><${Sentence} text=${item.because} zone=${zone} /></small>
  </div>
</li>`;

/** Show the wakes by hour; `total` is the number of all, `note` says what else there is to know. */
export const Agenda = ({ items, total, note }) => {
  const zone = sharedZone(items);
  const name = zoneName(zone);
  const moment = Math.floor(now.value / 60_000) * 60_000;
  return html`<section class="card now-agenda" aria-label="Agenda">
    <h2>Next 24 hours</h2>
    ${items.length === 0 && html`<p class="muted">No agent is going to wake by itself. Something new can wake it at any time.</p>`}
    ${byHour(items, name, moment).map(
      ([key, wakes]) => html`<h3 key=${`h${key}`}>${hourWords(key, name, moment)}</h3>
        <ol key=${key}>${wakes.map((item) => html`<${Wake} key=${item.agent} item=${item} zone=${zone} />`)}</ol>`,
    )}
    ${total > items.length && html`<p class="muted">${(total - items.length).toLocaleString("en")} later wakes are not shown. <a href="/console/agents?sort=next_wake">List agents by their next wake</a></p>`}
    ${note && html`<p class="muted">${note}</p>`}
    ${items.length > 0 && html`<p class="muted"><small>Times in ${name}</small></p>`}
  </section>`;
};

// What needs a person: a sentence, since when, the place, and the action that helps.

const FEW = 5;
const MAX_COUNTED = 100; // of the kinds that can be acted on together
const KINDS = {
  degraded: { word: "service", tone: "bad" },
  paused: { word: "paused", tone: "warn", plural: "paused organizations" },
  instance_paused: { word: "service paused", tone: "bad" },
  forgotten: { word: "forgotten", tone: "bad", plural: "forgotten agents" },
  quarantined: { word: "quarantined", tone: "bad", plural: "agents in quarantine", all: "/console/agents?phase=quarantined" },
  over_budget: { word: "over budget", tone: "warn", plural: "agents over budget", all: "/console/agents?phase=over_budget" },
  uncleared_high: { word: "waiting", tone: "warn", plural: "agents with waiting notifications", all: "/console/agents?sort=-uncleared_high" },
  approval: { word: "asks", tone: "warn", plural: "calls and questions that wait for a person", all: "/console/approvals" },
  failing: { word: "failing", tone: "warn", plural: "agents whose last runs failed" },
  failed_message: { word: "not sent", tone: "bad", plural: "messages that were not sent", all: "/console/messages", canSend: true },
  failed_run: { word: "failed", tone: "bad", plural: "runs that failed", all: "/console/runs?show=person", canSend: false },
  failing_hook: { word: "webhook", tone: "bad", plural: "deliveries of templates", canSend: true },
  stopped_schedule: { word: "schedule", tone: "bad", plural: "stopped schedules" },
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
  failing: ({ agent }) => [`/console/agents/${agent}/runs`, "Open its runs"],
  approval: ({ approval }) => [`/console/approvals/${approval}`, "Decide"],
  stopped_schedule: ({ agent }) => [`/console/agents/${agent}/schedules`, "Open its schedules"],
  failing_webhook: ({ webhook }) => [`/console/webhooks/${webhook}`, "Open the webhook"],
};

const idOf = ({ kind, message, delivery, run }) => ({ failed_message: message, failing_hook: delivery, failed_run: run })[kind];

/** Show what can be done about something that failed once: open its run, send it again, or dismiss it. */
const Remedy = ({ item: { kind, agent, run }, id, reload }) => {
  const act = (action) => async () => (await actOn(action, kind, [id]), reload());
  return html`${run && html`<a class="button" href="/console/agents/${agent}/runs/${run}">Open the run</a>`}
    ${KINDS[kind].canSend && html`<${Button} run=${act("send")}>Send again<//>`}
    <${Button} kind="quiet" run=${act("dismiss")}>Dismiss<//>`;
};

const Help = ({ item, reload }) => {
  const id = idOf(item);
  if (id) return html`<${Remedy} item=${item} id=${id} reload=${reload} />`;
  const [href, label] = item.place ?? places[item.kind]?.(item) ?? [];
  const act = (run) => async () => (await run(item.agent ?? item.organization), reload());
  if (href) return html`<a class="button" href=${href}>${label}</a>`;
  if (!isChosen(item)) return null;
  if (item.agent) return html`<${Button} run=${act(startRun)}>Start it now<//>`;
  if (item.kind !== "paused" || !isAdmin.value) return null;
  return html`<${ConfirmButton} question="All its agents may start." run=${act(endPause)}>End the pause<//>`;
};

const Item = ({ item, reload }) => {
  const { word, tone } = KINDS[item.kind] ?? { word: item.kind.replaceAll("_", " "), tone: "warn" };
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
    <div class="now-help actions"><${Help} item=${item} reload=${reload} /></div>
  </li>`;
};

const Kind = ({ kind, items, total, reload }) => {
  const opened = [query.value.open ?? []].flat();
  const isOpen = opened.includes(kind);
  const shown = isOpen ? items : items.slice(0, FEW);
  const { plural: words = "others", all, canSend } = KINDS[kind] ?? {};
  const act = (action) => async () => (await actOn(action, kind), reload());
  return html`
    ${shown.map((item) => html`<${Item} key=${idOf(item) ?? item.approval ?? item.agent ?? item.webhook ?? item.sentence} item=${item} reload=${reload} />`)}
    ${total > shown.length &&
    html`<li class="now-more">
      ${plural(total - shown.length, "other")} of ${total.toLocaleString("en")} ${words}
      ${items.length > shown.length && html`<button class="quiet" onClick=${() => setQuery({ open: [...opened, kind] })}>Show ${items.length - shown.length} more</button>`}
      ${all && items.length < total && html`<a href=${all}>List all</a>`}
    </li>`}
    ${canSend !== undefined && total > 1 &&
    html`<li class="now-more actions">
      ${canSend && html`<${ConfirmButton} question="Each goes to its recipient." run=${act("send")}>Send all again<//>`}
      <${ConfirmButton} kind="quiet" question="They need nobody any more." run=${act("dismiss")}>Dismiss all<//>
      <span>${total >= MAX_COUNTED ? `${MAX_COUNTED} or more` : total} ${words}</span>
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

// What needs the operator, from the status of the service. Pure functions.

const OLD_MS = 600_000;
const DAY_MS = 86_400_000;

const place = (agent) => ({ agent, href: `/console/service/${agent}`, place: [`/console/service/${agent}`, "Explain it"] });

/** Return the item for a reason why the service is not well. */
export const degraded = (reason) => ({ kind: "degraded", sentence: reason, place: ["/console/service", "Look at the service"] });

const ended = (text) => (/[.!?…]$/.test(text) ? text : `${text}.`);

const quarantined = ({ agent, name, failures, last_error: error }) => ({
  kind: "quarantined",
  ...place(agent),
  agent_name: name,
  since: null,
  sentence: `Quarantined after ${failures} failures in a row, the last one: ${ended(error)}`,
});

const forgotten = ({ agent, since }) => ({
  kind: "forgotten",
  ...place(agent),
  agent_name: agent,
  since,
  sentence: "A high-priority notification is active, and nothing has started the agent or will start it.",
});

const uncleared = ({ agent, name, since }) => ({
  kind: "uncleared_high",
  ...place(agent),
  agent_name: name,
  since,
  sentence: "It has the oldest high-priority notification that is not cleared, of all agents.",
});

/** Return the items and the number of each kind. */
export const itemsOf = (status, moment) => {
  const { service, oldest_uncleared_high: oldest, failing_webhooks: webhooks } = status;
  const items = [
    ...service.reasons.map(degraded),
    ...status.forgotten.map(forgotten),
    ...status.quarantined.map(quarantined),
  ];
  if (oldest && moment - Date.parse(oldest.since) > OLD_MS) items.push(uncleared(oldest));
  if (webhooks) {
    const text = webhooks === 1 ? "One event webhook fails, or was" : `${webhooks} event webhooks fail, or were`;
    const sentence = `${text} switched off by the service. The admins of their organizations see which.`;
    items.push({ kind: "failing_webhook", sentence, place: [] });
  }
  return { items, counts: { quarantined: status.supervisors.quarantined, failing_webhook: 1 } };
};

/** Return the wakes of the next 24 hours among the agents that were read. */
export const agendaOf = (supervisors, moment) =>
  supervisors
    .filter(({ next_wake: wake }) => wake && Date.parse(wake.at) < moment + DAY_MS)
    .map(({ agent, name, next_wake: wake }) => ({ ...wake, agent, agent_name: name, timezone: null, href: `/console/service/${agent}` }))
    .sort((one, other) => Date.parse(one.at) - Date.parse(other.at));

const TYPES = ["agent.*", "run.*", "notification.*", "organization.*", "budget.*", "webhook.*", "approval.*"];
const READ_SECONDS = 20; // some things begin without an event: a notification has waited for ten minutes
const SAMPLE = 100;

const Calm = ({ children }) => html`<div class="card now-calm">
  <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true"><circle cx="24" cy="24" r="22" /><path d="M14 25l7 7 13-15" /></svg>
  <h2>${lostWords() ? "Nothing needed a person" : "Nothing needs a person"}</h2>
  ${children}
</div>`;

const Screen = ({ service, sentence, phases, phaseLink, found, calm, agenda, reload }) => html`
  <div class="now-head">
    <p class="lead"><${Sentence} text=${sentence} /></p>
    ${service && html`<p class="muted now-service"><${Sentence} text=${service} /></p>`}
    <${Phases} phases=${phases} href=${phaseLink} />
  </div>
  <div class="columns now-columns">
    <section aria-label="What needs a person">
      ${found.items.length ? html`<h2 class="now-title">What needs a person</h2><${Attention} ...${found} reload=${reload} />` : calm}
    </section>
    ${agenda}
  </div>
`;

const readService = async (signal) => {
  try {
    return await get("/readyz", {}, signal);
  } catch (error) {
    if (error.status !== 503) throw error;
    return { state: "degraded", reasons: [error.message] };
  }
};

/** Return what to say while there is no connection, or null. */
const lostWords = () => {
  const { state, asOf } = live.value;
  return state === "reconnecting" ? `The service does not answer. This is how it was${asOf ? ` at ${formatInstant(asOf)}` : " before"}.` : null;
};

const serviceWords = (ready) => {
  if (lostWords()) return lostWords();
  if (!ready) return null;
  return ready.reasons.length ? "The service has a problem." : "The service is ready.";
};

const FirstSteps = () => html`<div class="card now-calm">
  <h2>No agents yet</h2>
  <p>Make a template and an agent, send it a first text, and see it hold, wake and sleep.</p>
  <p><a class="button primary" href="/console/start">Make the first agent</a></p>
</div>`;

const OrganizationChoice = () => {
  const { organizations = [] } = session.value ?? {};
  if (organizations.length < 2) return null;
  const options = [["", "all organizations"], ...organizations.map((one) => [one.id, one.name])];
  return html`<${Choice} label="Organization" value=${query.value.organization} options=${options} change=${(id) => setQuery({ organization: id })} />`;
};

const PersonNow = () => {
  const { organization } = query.value;
  const overview = useGet("/api/cloud/overview/", { organization }, {
    events: TYPES,
    every: READ_SECONDS,
  });
  const ready = useResource(readService, [], { every: READ_SECONDS });
  const told = (overview.data?.attention ?? []).map((item) => item.sentence); // such as a pause of the instance
  const reasons = (ready.data?.reasons ?? []).filter((reason) => !told.includes(reason));
  const link = (phase) => `/console/agents?${new URLSearchParams({ phase, ...(organization && { organization }) })}`;
  return html`<${Page} title="Now" actions=${html`<${OrganizationChoice} />`}>
    <${Loaded} of=${overview}>
      ${(data) => html`<${Screen}
        service=${serviceWords(ready.data)}
        sentence=${data.sentence}
        phases=${data.phases}
        phaseLink=${link}
        found=${{ items: [...reasons.map(degraded), ...data.attention], counts: data.attention_counts }}
        calm=${Object.keys(data.phases).length ? html`<${Calm}><p>Agents that ask, are quarantined, over budget, forgotten, or leave something waiting appear here; so do messages, runs and webhooks that failed.</p><//>` : html`<${FirstSteps} />`}
        agenda=${html`<${Agenda} items=${data.agenda} total=${data.agenda_total} />`}
        reload=${overview.reload}
      />`}
    <//>
  <//>`;
};

const OperatorNow = () => {
  const options = { events: TYPES, every: READ_SECONDS };
  const status = useGet("/status/", {}, options);
  const sample = useGet("/status/supervisors/", { limit: SAMPLE }, options);
  return html`<${Page} title="Now">
    <${Loaded} of=${status}>
      ${(data) => {
        const moment = Date.now();
        const { pending } = data.timers;
        const note = (sample.data?.length ?? 0) < SAMPLE ? null : `These are wakes of ${SAMPLE} agents. In all, ${pending.toLocaleString("en")} agents have a moment to act.`;
        return html`<${Screen}
          sentence=${lostWords() ?? data.sentence}
          phases=${data.phases}
          found=${itemsOf(data, moment)}
          calm=${html`<${Calm}><p>Problems of the service, quarantined and forgotten agents appear here.</p><//>`}
          agenda=${html`<${Agenda} items=${agendaOf(sample.data ?? [], moment)} total=${0} note=${note} />`}
          reload=${status.reload}
        />`;
      }}
    <//>
  <//>`;
};

/** Show what is going on, for a person or for the operator. */
export default () => (isOperator.value ? html`<${OperatorNow} />` : html`<${PersonNow} />`);
