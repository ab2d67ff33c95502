// The first screen: how it is, what needs a person, and who wakes next.
import { html } from "../../lib.js";
import { get } from "../../core/api.js";
import { useGet, useResource } from "../../core/resource.js";
import { query, setQuery } from "../../core/router.js";
import { isOperator, session } from "../../core/session.js";
import { Choice, Loaded, Page, Sentence } from "../../ui/ui.js";
import { Agenda } from "./agenda.js";
import { Attention } from "./attention.js";
import { agendaOf, degraded, itemsOf } from "./of_service.js";
import { Phases } from "./phases.js";

const TYPES = ["agent.*", "run.*", "notification.*", "organization.*", "budget.*", "webhook.*"];
const READ_SECONDS = 20; // some things begin without an event: a notification has waited for ten minutes
const SAMPLE = 100;

const Calm = ({ children }) => html`<div class="card now-calm">
  <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true"><circle cx="24" cy="24" r="22" /><path d="M14 25l7 7 13-15" /></svg>
  <h2>Nothing needs a person</h2>
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

const serviceWords = (ready) => {
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
  const reasons = ready.data?.reasons ?? [];
  const link = (phase) => `/console/agents?${new URLSearchParams({ phase, ...(organization && { organization }) })}`;
  return html`<${Page} title="Now" actions=${html`<${OrganizationChoice} />`}>
    <${Loaded} of=${overview}>
      ${(data) => html`<${Screen}
        service=${serviceWords(ready.data)}
        sentence=${data.sentence}
        phases=${data.phases}
        phaseLink=${link}
        found=${{ items: [...reasons.map(degraded), ...data.attention], counts: data.attention_counts }}
        calm=${Object.keys(data.phases).length ? html`<${Calm}><p>Agents that are quarantined, over budget, forgotten, or leave something waiting appear here.</p><//>` : html`<${FirstSteps} />`}
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
          sentence=${data.sentence}
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
