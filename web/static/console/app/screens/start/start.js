// The first use: a template, an agent, a text, and what the agent then does, as it happens.
import { html } from "../../lib.js";
import { get, post } from "../../core/api.js";
import { useGet, useResource } from "../../core/live.js";
import { BASE, query, setQuery } from "../../core/router.js";
import { Instant } from "../../core/words.js";
import { Field, Form, Line, Loaded, Page, PhaseBadge, Sentence, toast, useFirstField } from "../../ui/ui.js";

const createTemplate = async (values) => {
  const { id } = await post("/api/templates/", values);
  setQuery({ template: id });
};

const createAgent = async (values) => {
  const { id } = await post("/api/cloud/agents/", { ...values, model: "builtin/inbox", template: query.peek().template });
  setQuery({ agent: id });
};

const sendText = async ({ title }) => {
  await post("/api/defaults/notifications/", { agent: query.peek().agent, title, source: "sms", priority: "high" });
  toast("The text has arrived.");
};

const Step = ({ title, result, isOpen, children }) => html`<li class="card start-step" aria-current=${isOpen ? "step" : undefined}>
  <h2>${title} ${result && html`<span class="badge good">done</span>`}</h2>
  ${result && html`<p><${Line} value=${result} /></p>`} ${isOpen && children}
</li>`;

const TemplateForm = () => html`<p class="muted">Settings that many agents share. A change reaches all of them.</p>
  <${Form} save=${createTemplate} submit="Create template">
    <${Field} label="Name" name="name" value="Support" required />
    <${Field}
      label="Wait for a pause of … seconds"
      name="debounce_window_seconds"
      type="number"
      min="0"
      value="5"
      help="Three texts in a row wake the agent once, when the conversation has paused for so long."
    />
  <//>`;

const AgentForm = () => html`<p class="muted">
    It sleeps until something wakes it. The model of this first one, <code>builtin/inbox</code>, needs no network: it reads
    its queue, clears it, and sleeps again.
  </p>
  <${Form} save=${createAgent} submit="Create agent">
    <${Field} label="Name" name="name" value="Grace" required />
  <//>`;

const TextForm = () => html`<p class="muted">As if a person wrote to the agent's telephone number. Send several, quickly.</p>
  <${Form} save=${sendText} submit="Send text">
    <${Field} label="Text" name="title" value="Hello, are you there?" required />
  <//>`;

/** Return a row for each text and each change of phase, and whether the agent has run and sleeps again. */
const happenings = (events) => {
  const rows = [];
  let hasRun = false;
  let phase = "asleep";
  for (const { id, at, type, data, resource } of events) {
    if (type === "notification.created") {
      rows.push({ id, at, kind: data.source === "sms" ? "text" : "notice", sentence: resource?.title ?? "" });
    } else if (data.to) {
      phase = data.to;
      hasRun ||= phase === "running";
      rows.push({ id, at, phase, sentence: data.why });
    }
  }
  return { rows, isDone: hasRun && phase === "asleep" };
};

const Happenings = ({ agent }) => {
  const events = useGet(`/api/cloud/agents/${agent}/events/`, { after: 0, limit: 500 }, {
    events: ["agent.*", "run.*", "notification.*"],
    agent,
  });
  return html`<section class="card start-events" aria-labelledby="start-events">
    <h2 id="start-events">What it does, and why</h2>
    <${Loaded} of=${events}>
      ${(data) => {
        const { rows, isDone } = happenings(data.events);
        return html`<ol aria-live="polite">
            ${rows.map(
              ({ id, at, phase, kind, sentence }) => html`<li key=${id}>
                <${Instant} at=${at} style="time" />
                ${phase ? html`<${PhaseBadge} phase=${phase} />` : html`<span class="badge">${kind}</span>`}
                <${Sentence} text=${sentence} />
              </li>`,
            )}
          </ol>
          ${isDone && html`<${Next} agent=${agent} />`}`;
      }}
    <//>
  </section>`;
};

const Next = ({ agent }) => html`<div class="start-next">
  <p>It has woken for your text, and sleeps again. You can send it another one, or go on:</p>
  <ul>
    <li><a href="${BASE}/agents/${agent}">See its day, its queue and its settings</a></li>
    <li><a href="${BASE}/people">Make an API key for a program, or invite somebody</a></li>
    <li><a href="/api/docs/" target="_blank">Read what programs can do over the API</a></li>
  </ul>
</div>`;

/** Lead from nothing to an agent that holds, wakes and sleeps. */
export default function Start() {
  const { template, agent } = query.value;
  const names = useResource(
    async () => ({
      template: template && (await get(`/api/templates/${template}/`)).name,
      agent: agent && (await get(`/api/cloud/agents/${agent}/`)).name,
    }),
    [template, agent],
  );
  const box = useFirstField([template, agent, names.data === null]);
  return html`<${Page} title="First steps">
    <${Loaded} of=${names}>
      ${(named) => html`<div class="start" ref=${box}>
        <ol class="start-steps">
          <${Step} title="1. A template" result=${named.template} isOpen=${!template}><${TemplateForm} /><//>
          <${Step} title="2. An agent" result=${named.agent} isOpen=${template && !agent}><${AgentForm} /><//>
          <${Step} title="3. A text" isOpen=${agent}><${TextForm} /><//>
        </ol>
        ${agent && html`<${Happenings} agent=${agent} />`}
      </div>`}
    <//>
  <//>`;
}
