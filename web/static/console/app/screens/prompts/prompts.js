// The system prompt of an agent or a template: its text and its versions.
import { html } from "../../lib.js";
import { useGet } from "../../core/live.js";
import { path } from "../../core/router.js";
import { Line, Loaded, Page, Text } from "../../ui/ui.js";
import { Versions } from "../../ui/versions.js";

const OWNERS = {
  agents: { api: "/api/cloud/agents/", edit: "/settings", missing: "The agent has no prompt of its own." },
  templates: { api: "/api/templates/", edit: "", missing: "The template has no prompt." },
};

const Prompt = ({ kind, owner: { id, name, system_prompt: text, template, timezone }, reload }) => {
  const { api, edit, missing } = OWNERS[kind];
  const home = `/console/${kind}/${id}`;
  const inherited = template && html` It is told <a href="/console/templates/${template}/prompts">that of its template</a>.`;
  const heading = html`Prompt of <a href=${home}><${Line} value=${name} max=${80} /></a>`;
  return html`<${Page} title="Prompt of ${name}" heading=${heading} actions=${html`<a class="button" href="${home}${edit}">Change it</a>`}>
    <section class="card versions">
      <h2>Current text</h2>
      ${text && template && html`<p class="muted">The agent is told this instead of the prompt of its template.</p>`}
      <div class="documents-text" tabindex="0" role="region" aria-label="Text">${text ? html`<${Text} value=${text} />` : html`<p class="muted">${missing}${inherited}</p>`}</div>
      <${Versions} path="${api}${id}/prompts/" zone=${timezone} reload=${reload} />
    </section>
  <//>`;
};

/** Show the prompt of the agent or the template of the address. */
export default ({ id }) => {
  const kind = path.value.split("/")[1];
  const owner = useGet(`${OWNERS[kind].api}${encodeURIComponent(id)}/`, {}, { events: ["agent.changed"], every: 15 });
  return html`<${Loaded} of=${owner}>${(data) => html`<${Prompt} kind=${kind} owner=${data} reload=${owner.reload} />`}<//>`;
};
