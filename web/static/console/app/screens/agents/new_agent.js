// The window in which an agent is created.
import { html, useState } from "../../lib.js";
import { post } from "../../core/api.js";
import { useGet } from "../../core/resource.js";
import { navigate } from "../../core/router.js";
import { Dialog, Field, Form, namesOf, ZoneField } from "../../ui/ui.js";

const INBOX = "builtin/inbox";

const create = async ({ name, template, model, timezone, max_sleep_hours: hours }) => {
  const chosen = model.trim() ? { model: model.trim() } : {};
  const body = { name, template: template || null, timezone, max_sleep_hours: hours, ...chosen };
  const agent = await post("/api/cloud/agents/", body);
  navigate(`/console/agents/${agent.id}`);
};

/** Show the form for a new agent. */
export const NewAgent = ({ close, template = "" }) => {
  const { data: templates } = useGet("/api/templates/", { limit: 500 });
  const [chosen, setChosen] = useState(template);
  const inherited = templates?.find(({ id }) => id === chosen)?.default_model;
  const options = [["", "none"], ...namesOf(templates)];
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`<${Dialog} title="New agent" close=${close}>
    <${Form} save=${create} submit="Create the agent" onInput=${(values) => setChosen(values.template)}>
      <${Field} label="Name" name="name" autofocus />
      <${Field} label="Template" name="template" type="select" key=${templates ? "known" : "unknown"} value=${chosen} options=${options} help="The settings that it shares with others." />
      <${Field}
        label="Model"
        name="model"
        key=${inherited ?? ""}
        value=${inherited ? "" : INBOX}
        placeholder=${inherited}
        list="agents-models"
        help=${inherited ? `Leave it empty for that of the template: ${inherited}.` : `${INBOX} needs no network: it reads the queue and clears it.`}
      />
      <datalist id="agents-models"><option value=${INBOX}></option></datalist>
      <${ZoneField} label="Time zone" name="timezone" value=${zone} />
      <${Field} label="Longest sleep, in hours" name="max_sleep_hours" type="number" min="0" help="It wakes at the latest after this time. Empty: only something new wakes it." />
    <//>
  <//>`;
};
