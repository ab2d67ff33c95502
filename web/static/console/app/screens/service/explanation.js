// Why one agent does what it does, now or at a moment in the past, for operators.
import { html } from "../../lib.js";
import { useGet } from "../../core/resource.js";
import { query, setQuery } from "../../core/router.js";
import { plural } from "../../core/words.js";
import { CopyButton, Instant, Line, Loaded, Page, PhaseBadge, Sentence, Table, Text } from "../../ui/ui.js";
import { Fact } from "./tiles.js";

const MESSAGES = [
  { title: "At", cell: (row) => html`<${Instant} at=${row.at} />` },
  { title: "Message", cell: (row) => html`<${Line} value=${row.message} />` },
  { title: "Result", cell: (row) => html`<${Line} value=${row.outcome} />` },
];

const Moment = () => {
  const choose = (event) => {
    event.preventDefault();
    setQuery({ at: event.target.elements.at.value.trim() || null });
  };
  return html`<form class="filters" onSubmit=${choose}>
    <label>At <input class="service-at" name="at" data-filter placeholder="2026-11-20 03:00, or empty for now" defaultValue=${query.value.at ?? ""} /></label>
    <button>Explain</button>
    ${query.value.at && html`<button type="button" class="quiet" onClick=${() => setQuery({ at: null })}>Now</button>`}
  </form>`;
};

const Present = ({ agent }) => html`
  <${Fact} name="Mailbox">${agent.mailbox.depth} of ${agent.mailbox.limit} requests<//>
  <${Fact} name="Failures">${agent.failures.consecutive ? html`${agent.failures.consecutive} in a row: <${Text} value=${agent.failures.last_error} />` : "none"}<//>
  <${Fact} name="Keeps it awake">${agent.blockers.length ? plural(agent.blockers.length, "active notification") : "nothing"}<//>
  ${agent.debounce && html`<${Fact} name="Holds until"><${Instant} at=${agent.debounce.due_at} />, a window of ${agent.debounce.window_seconds} s<//>`}
  ${agent.run && html`<${Fact} name="Run"><code>${agent.run.id}</code>, turn ${agent.run.turn}, since <${Instant} at=${agent.run.started_at} /><//>`}
`;

// The past knows the moment of the next wake, but not the cause.
const wakeOf = ({ next_wake: wake, next_wake_at: at }) => wake ?? (at && { at, because: "" });

const Explained = ({ agent }) => html`
  <section class="card">
    <p class="lead"><${Sentence} text=${agent.why} /></p>
    <dl class="facts service-facts">
      <${Fact} name="Phase"><${PhaseBadge} phase=${agent.phase} /> since <${Instant} at=${agent.since} style="full" /><//>
      <${Fact} name="Next wake">${wakeOf(agent) ? html`<${Instant} at=${wakeOf(agent).at} style="full" /><br /><${Sentence} text=${wakeOf(agent).because} />` : "only when something new comes"}<//>
      <${Fact} name="Organization"><code>${agent.organization}</code><//>
      <${Fact} name="Agent"><code>${agent.agent}</code> <${CopyButton} text=${agent.agent} /><//>
      ${agent.mailbox && html`<${Present} agent=${agent} />`}
    </dl>
  </section>
  ${agent.recent?.length > 0 &&
  html`<section class="card"><h2>Last messages to its supervisor</h2><${Table} label="Last messages" columns=${MESSAGES} rows=${[...agent.recent].reverse()} id=${(row) => row.at + row.message} /></section>`}
`;

/** Show the explanation of the agent at the moment of the address. */
export const Explanation = ({ id }) => {
  const { at } = query.value;
  const path = `/status/supervisors/${encodeURIComponent(id)}/`;
  const agent = useGet(path, { at }, { events: ["agent.*", "run.*", "notification.*"], agent: id });
  const name = agent.data?.name ?? "Agent";
  return html`<${Page} title=${name} actions=${html`<a href="/console/service">All agents</a>`}>
    <${Moment} key=${at} />
    <${Loaded} of=${agent}>${(data) => html`<${Explained} agent=${data} />`}<//>
  <//>`;
};
